"""The emitted backward module: everything of the backward's kernels that is the variant's own, over the kernel library."""

from dataclasses import replace

from attnspec.backends.cute.emit.backward_functions import write_backward_functions
from attnspec.backends.cute.emit.backward_kernel import LOADED_BY_PAIR, Frame, has_padding, is_exact, write_backward_kernels
from attnspec.backends.cute.emit.dispatch import IDLE
from attnspec.backends.cute.emit.header import write_header
from attnspec.backends.cute.emit.imports import SHARED, write_block_imports, write_compiler_imports
from attnspec.backends.cute.emit.pipes import write_pipes
from attnspec.backends.cute.emit.sequences import sequences_of
from attnspec.backends.emitted import Module
from attnspec.backends.sm100.emit.backward_plan import write_backward_plan
from attnspec.backends.sm100.emit.kernel import role_function, write_opening, write_roles
from attnspec.backends.sm100.emit.module import KERNEL
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import Schedule

PASSES = ("convert", "prepare")
EVERYWHERE = frozenset({"convert", "settle", "load", "store"})  # passes and roles that all targets share
EXACT = "settle"  # the pass that only exact sums want


def backward_module(analysed: Analysed, schedule: Schedule) -> Module:
    """The text of `backward.py`, with the span of each line that has one."""
    source = Source()
    write_header(source, analysed.spec, schedule)
    body = Source()
    write_backward_functions(body, analysed)
    _write_imports(source, analysed, schedule, str(body))
    source.blank()
    write_backward_plan(source, schedule, analysed)
    source.blank()
    write_pipes(source, schedule)
    write_backward_functions(source, analysed)
    frame = Frame(write_opening, write_roles, _closing, True)
    if schedule.dataflow.ctas > 1:
        frame = replace(frame, processors="processors // pair.CTAS", loaded=LOADED_BY_PAIR, is_pair=True)
    write_backward_kernels(source, schedule, analysed.spec, frame)
    return Module("backward", str(source), source.spans)


def _closing(schedule: Schedule) -> tuple[str, ...]:
    """Give tensor memory back."""
    allocator = next(role for role in schedule.roles if role.kind == "mma").warps[0]
    return (f"tear_down(PLAN, starts, warp, {allocator})",)


def _write_imports(source: Source, analysed: Analysed, schedule: Schedule, functions: str) -> None:
    """What the module needs, and the roles it uses, no others."""
    module = sequences_of(analysed.spec).module
    write_compiler_imports(source, module)
    exact = ", Exact" if is_exact(schedule, analysed.spec) else ""
    source.line(f"from {SHARED}.backward_bundles import BackwardMods, BackwardTiles{exact}, LearnedRead, SinkRead")
    write_block_imports(source, functions)
    if schedule.dataflow.ctas > 1:
        source.line(f"from {SHARED}.blocks import pair")
    source.line(f"from {SHARED}.pipes import Pipe, Pipes")
    source.line(f"from {SHARED}.plan import Step")
    source.line(f"from {SHARED}.query_walk import KeySequences, deal_key_tiles, {module}_axis")
    source.line(f"from {SHARED}.work import Rounds, Sizes, Work")
    source.line(f"from {KERNEL}.backward_plan import BackwardPlan")
    if has_padding(schedule):
        source.line(f"from {KERNEL}.blocks.clear_padding import clear_padding")
    source.line(f"from {KERNEL}.blocks.row_products import row_tiles")
    source.line(f"from {KERNEL}.blocks.set_up import set_up, tear_down")
    passes = (*PASSES, EXACT) if exact else PASSES
    own = {*passes, *(role_function(role, schedule) for role in schedule.roles if role.kind != IDLE)}
    for folder, names in ((SHARED, own & EVERYWHERE), (KERNEL, own - EVERYWHERE)):
        for name in sorted(names):
            source.line(f"from {folder}.roles_backward.{name} import {name}")
    source.line("from cutlass import Float32, Int32, Int64")
