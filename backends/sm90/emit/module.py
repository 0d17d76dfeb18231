"""The emitted module: everything of one forward kernel that is the variant's own, over the kernel library."""

from attnspec.backends.cute.emit.dispatch import IDLE
from attnspec.backends.cute.emit.functions import write_functions
from attnspec.backends.cute.emit.header import write_header
from attnspec.backends.cute.emit.imports import SHARED, write_block_imports, write_compiler_imports
from attnspec.backends.cute.emit.pipes import write_pipes
from attnspec.backends.cute.emit.sequences import sequences_of
from attnspec.backends.emitted import Module
from attnspec.backends.sm90.emit.kernel import write_kernel
from attnspec.backends.sm90.emit.plan import write_plan
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import Schedule

KERNEL = "attnspec.backends.sm90.kernel"


def forward_module(analysed: Analysed, schedule: Schedule) -> Module:
    """The text of `forward.py`, with the span of each line that has one."""
    source = Source()
    write_header(source, analysed.spec, schedule)
    body = Source()
    write_functions(body, analysed)
    _write_imports(source, schedule, str(body), sequences_of(analysed.spec).module)
    source.blank()
    write_plan(source, schedule, analysed)
    source.blank()
    write_pipes(source, schedule)
    write_functions(source, analysed)
    write_kernel(source, schedule, analysed.spec)
    return Module("forward", str(source), source.spans)


def _write_imports(source: Source, schedule: Schedule, functions: str, kind: str) -> None:
    """What the module needs, and the roles it uses, no others."""
    write_compiler_imports(source, kind)
    write_block_imports(source, functions)
    source.line(f"from {SHARED}.bundles import Mods, {'Stage, ' if 'Stage(' in functions else ''}Tiles")
    source.line(f"from {SHARED}.pipes import Pipe, Pipes")
    source.line(f"from {SHARED}.plan import Step")
    source.line(f"from {SHARED}.shares import Rounds, Sizes, Work, deal_tiles")
    source.line(f"from {KERNEL}.blocks.set_up import set_up")
    source.line(f"from {KERNEL}.plan import Plan")
    for name in sorted({role.kind for role in schedule.roles} - {IDLE}):
        source.line(f"from {KERNEL}.roles.{name} import {name}")
    source.line("from cutlass import Float32, Int32, Int64")
