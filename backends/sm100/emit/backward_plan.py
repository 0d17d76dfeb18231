"""The `PLAN` literal of a backward kernel: every number of the schedule that the kernel library needs."""

from collections.abc import Sequence

from attnspec.backends.cute.emit.pipes import barrier_count
from attnspec.backends.cute.emit.plan import BARRIER_BYTES, ELEMENTS, begins_later
from attnspec.backends.sm100.emit.plan import PROGRAMS
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward import LANES, PLANES
from attnspec.lowering.dataflow.backward_shape import backward_shape
from attnspec.lowering.schedule.schedule import Schedule

WIDTH = 124  # of a line of facts


def write_backward_plan(source: Source, schedule: Schedule, analysed: Analysed) -> None:
    """`PLAN = BackwardPlan(...)`, its facts as many as fit on a line."""
    deterministic = schedule.dataflow.deterministic
    facts = backward_plan_facts(schedule) | {
        "deterministic": deterministic,
        "last_first": deterministic and begins_later(analysed),
    }
    facts["parts"] = backward_shape(analysed.spec).parts
    with source.block("PLAN = BackwardPlan("):
        source.line(f"element={ELEMENTS[analysed.spec.dtype]},")
        write_filled(source, [f"{name}={value}," for name, value in facts.items()])
        with source.block("programs={"):
            for role in schedule.roles:
                if role.kind in PROGRAMS:
                    steps = [f"Step({step.operation!r}, None, {step.stage})," for step in role.program]
                    source.line(f"{role.kind!r}: ({' '.join(steps)}),")
        source.line("},")
        if schedule.dataflow.ctas > 1:
            write_filled(source, [f"{name}={value}," for name, value in pair_facts(schedule).items()])
    source.line(")")


def pair_facts(schedule: Schedule) -> dict[str, object]:
    """What the plan of a pair of CTAs has beside: where that lies of which it holds half of the columns."""
    place = schedule.placement
    facts: dict[str, object] = {"ctas": schedule.dataflow.ctas, "k_columns_offset": place("k_columns").offset}
    for name in ("q_columns", "do_columns"):
        facts |= {f"{name}_offset": place(name).offset, f"{name}_stride": place(name).size, f"{name}_depth": place(name).depth}
    return facts


def write_filled(source: Source, items: Sequence[str]) -> None:
    """Items one after another, as many as fit on a line."""
    line = ""
    for item in items:
        if line and len(line) + len(item) >= WIDTH:
            source.line(line)
            line = ""
        line = f"{line} {item}".lstrip()
    source.line(line)


def backward_plan_facts(schedule: Schedule) -> dict[str, object]:
    """The plain numbers of the plan, in the order of `BackwardPlan`'s fields."""
    flow, place, count = schedule.dataflow, schedule.placement, barrier_count(schedule)
    barriers = max(item.end() for item in schedule.placements if item.space == "shared")
    facts: dict[str, object] = {
        "tile_q": flow.tile_q,
        "tile_kv": flow.tile_kv,
        "query_tiles": flow.query_tiles,
        "head_dim": schedule.head_dim,
        "head_dim_v": schedule.head_dim_v,
        "threads": schedule.threads,
        "barriers": count,
        "planes": PLANES,
        "chunk": place("dq_out").size // (4 * LANES),
        "dq_pieces": sum(operation.kind.startswith("load_dq") for operation in flow.operations),
        "k_offset": place("k").offset,
        "v_offset": place("v").offset,
    }
    for name in ("q", "do"):
        facts |= {f"{name}_offset": place(name).offset, f"{name}_stride": place(name).size, f"{name}_depth": place(name).depth}
    facts |= {"ds_offset": place("ds_out").offset, "dq_offset": place("dq_out").offset, "dq_stride": place("dq_out").size}
    facts |= {"rows_offset": place("rows").offset, "rows_stride": place("rows").size, "barriers_offset": barriers}
    facts |= {"starts_offset": barriers + BARRIER_BYTES * count, "shared_bytes": schedule.shared_bytes}
    facts |= {f"{name}_column": place(name).offset for name in ("s", "p", "dv", "dp", "ds", "dk", "dq")}
    choices = schedule.choices
    facts |= {"tensor_columns": schedule.tensor_columns, "longest_first": choices.longest_first}
    facts |= {"scatters": choices.scatters, "grows": choices.grows, "l2_bytes": choices.l2_bytes}
    return facts
