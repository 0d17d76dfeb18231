"""The emitted module: everything of one forward kernel that is the variant's own, over the kernel library."""

from attnspec.backends.cute.emit.functions import write_functions
from attnspec.backends.cute.emit.header import write_header
from attnspec.backends.cute.emit.imports import SHARED, write_block_imports, write_compiler_imports
from attnspec.backends.cute.emit.pipes import write_pipes
from attnspec.backends.cute.emit.sequences import sequences_of
from attnspec.backends.emitted import Module
from attnspec.backends.sm100.emit.kernel import role_functions, write_kernel
from attnspec.backends.sm100.emit.plan import write_plan
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.tensor_tiles import packing_of, tiled_tensors, tiles_of
from attnspec.lowering.schedule.schedule import Schedule

KERNEL = "attnspec.backends.sm100.kernel"


def forward_module(analysed: Analysed, schedule: Schedule) -> Module:
    """The text of `forward.py`, with the span of each line that has one."""
    source = Source()
    write_header(source, analysed.spec, schedule)
    body = Source()
    tiles = tiled_tensors(analysed.spec, schedule.dataflow)
    write_functions(body, analysed, tiles_of(schedule.dataflow))
    packs = packing_of(analysed, schedule.dataflow).is_allowed
    _write_imports(source, schedule, str(body), sequences_of(analysed.spec).module, packs, bool(tiles))
    source.blank()
    write_plan(source, schedule, analysed.spec.dtype, [tensor.dtype for tensor in tiles])
    source.blank()
    write_pipes(source, schedule)
    write_functions(source, analysed, tiles_of(schedule.dataflow))
    write_kernel(source, schedule, analysed.spec, packs, [tensor.name for tensor in tiles])
    return Module("forward", str(source), source.spans)


def _write_imports(source: Source, schedule: Schedule, functions: str, kind: str, packs: bool, has_tiles: bool) -> None:
    """What the module needs, and the roles it uses, no others."""
    write_compiler_imports(source, kind)
    write_block_imports(source, functions)
    if schedule.dataflow.ctas > 1:
        source.line(f"from {SHARED}.blocks import pair")
    source.line(f"from {SHARED}.bundles import Mods, {'Stage, ' if 'Stage(' in functions else ''}Tiles")
    source.line(f"from {SHARED}.cut import {'FEW, Cut, choose_row_bits' if packs else 'Cut'}")
    source.line(f"from {SHARED}.merge import merge")
    source.line(f"from {SHARED}.pipes import Pipe, Pipes")
    source.line(f"from {SHARED}.plan import Step")
    source.line(f"from {SHARED}.shares import Rounds, Sizes, Work, deal_tiles")
    source.line(f"from {KERNEL}.blocks.set_up import set_up, tear_down")
    beside = [("Ring", schedule.dataflow.key_tiles > 1), ("TensorTile", has_tiles)]
    source.line(f"from {KERNEL}.plan import {', '.join(['Plan', *(name for name, is_used in beside if is_used)])}")
    for name in role_functions(schedule):
        source.line(f"from {KERNEL}.roles.{name} import {name}")
    source.line("from cutlass import Float32, Int32, Int64")
