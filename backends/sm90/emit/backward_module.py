"""The emitted backward module: everything of the backward's kernels that is the variant's own, over the kernel library."""

from dataclasses import replace

from attnspec.backends.cute.emit.backward_functions import write_backward_functions
from attnspec.backends.cute.emit.backward_kernel import Frame, is_exact, write_backward_kernels
from attnspec.backends.cute.emit.dispatch import IDLE, write_dispatch
from attnspec.backends.cute.emit.header import write_header
from attnspec.backends.cute.emit.imports import SHARED, write_block_imports, write_compiler_imports
from attnspec.backends.cute.emit.pipes import write_pipes
from attnspec.backends.cute.emit.sequences import sequences_of
from attnspec.backends.emitted import Module
from attnspec.backends.sm90.emit.backward_plan import write_backward_plan
from attnspec.backends.sm90.emit.kernel import write_opening
from attnspec.backends.sm90.emit.module import KERNEL
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import Schedule

EXACT = "settle"  # the pass that only exact sums want
EVERYWHERE = frozenset({"settle", "load", "store"})  # passes and roles that all targets share


def backward_module(analysed: Analysed, schedule: Schedule) -> Module:
    """The text of `backward.py`, with the span of each line that has one."""
    source = Source()
    write_header(source, analysed.spec, schedule)
    body = Source()
    write_backward_functions(body, analysed)
    exact = is_exact(schedule, analysed.spec)
    _write_imports(source, schedule, str(body), sequences_of(analysed.spec).module, exact)
    source.blank()
    write_backward_plan(source, schedule, analysed)
    source.blank()
    write_pipes(source, schedule)
    write_backward_functions(source, analysed)
    write_backward_kernels(source, schedule, analysed.spec, _frame(schedule))
    return Module("backward", str(source), source.spans)


def _frame(schedule: Schedule) -> Frame:
    """A CTA that does tile after tile loads the next keys beside the stores of dK and dV, where rounds share tiles out evenly (on
    an H200 1 to 5 % under causal masks and windows). Tiles that are alike, or whose lengths hang on tensors, have a CTA each, and
    the chip hands them out as CTAs end (up to 6 % without a mask). Where adding has an order CTAs wait for one another, so all
    must run at once."""
    frame = Frame(lambda source, _: write_opening(source), write_dispatch, lambda _: (), row_tiles=True)
    choices = schedule.choices
    goes_on = schedule.dataflow.deterministic or (choices.longest_first and not choices.scatters)
    return frame if goes_on else replace(frame, processors=None)


def _write_imports(source: Source, schedule: Schedule, functions: str, module: str, exact: bool) -> None:
    """What the module needs, and the roles it uses, no others."""
    write_compiler_imports(source, module)
    write_block_imports(source, functions)
    more = ", Exact" if exact else ""
    source.line(f"from {SHARED}.backward_bundles import BackwardMods, BackwardTiles{more}, LearnedRead, SinkRead")
    source.line(f"from {SHARED}.pipes import Pipe, Pipes")
    source.line(f"from {SHARED}.plan import Step")
    source.line(f"from {SHARED}.query_walk import KeySequences, deal_key_tiles, {module}_axis")
    own = {"convert", "prepare", *(role.kind for role in schedule.roles), *([EXACT] if exact else [])} - {IDLE}
    for name in sorted(own & EVERYWHERE):
        source.line(f"from {SHARED}.roles_backward.{name} import {name}")
    source.line(f"from {SHARED}.work import Rounds, Sizes, Work")
    source.line(f"from {KERNEL}.backward_plan import BackwardPlan")
    source.line(f"from {KERNEL}.blocks.row_products import row_tiles")
    source.line(f"from {KERNEL}.blocks.set_up import set_up")
    for name in sorted(own - EVERYWHERE):
        source.line(f"from {KERNEL}.roles_backward.{name} import {name}")
    source.line("from cutlass import Float32, Int32, Int64")
