"""What every `PLAN` literal has: the element type, where barriers are, the programs of roles."""

from collections.abc import Collection

from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.schedule import ProgramStep, Schedule

from attnspec.language.expr import names

ELEMENTS = {"bf16": "cutlass.BFloat16", "fp16": "cutlass.Float16"}
BARRIER_BYTES = 8  # an mbarrier; the barriers follow the last buffer, and a few words follow them


def begins_later(analysed: Analysed) -> bool:
    """Whether later key tiles begin with later query tiles, as under a causal mask."""
    return any(names(found.first) & {"kv_first", "kv_last"} for found in analysed.queries.seen)


def write_programs(source: Source, schedule: Schedule, kinds: Collection[str]) -> None:
    """`programs={...},`. kinds: of the roles whose order of operations is the schedule's to say."""
    with source.block("programs={"):
        for role in schedule.roles:
            if role.kind in kinds:
                with source.block(f"{role.kind!r}: ("):
                    for step in role.program:
                        source.line(_step(schedule, step))
                source.line("),")
    source.line("},")


def _step(schedule: Schedule, step: ProgramStep) -> str:
    operation = schedule.dataflow.operation(step.operation)
    return f"Step({operation.kind!r}, {operation.query_tile}, {step.stage}),"
