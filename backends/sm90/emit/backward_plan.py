"""The `PLAN` literal of a backward kernel: every number of the schedule that the kernel library needs."""

from itertools import groupby

from attnspec.backends.cute.emit.pipes import barrier_count
from attnspec.backends.cute.emit.plan import BARRIER_BYTES, ELEMENTS, begins_later, write_programs
from attnspec.backends.sm90.emit.plan import PROGRAMS
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward_in_registers import PAIR_BYTES, PLANES, register_shape
from attnspec.lowering.schedule.schedule import Schedule

LANES = 128  # numbers of dQ's sum that a column of a chunk stands for


def write_backward_plan(source: Source, schedule: Schedule, analysed: Analysed) -> None:
    """`PLAN = BackwardPlan(...)`, a line a fact or two."""
    with source.block("PLAN = BackwardPlan("):
        source.line(f"element={ELEMENTS[analysed.spec.dtype]},")
        for _, few in groupby(backward_plan_facts(schedule, analysed).items(), key=lambda fact: fact[0].partition("_")[0]):
            source.line(" ".join(f"{name}={value}," for name, value in few))
        write_programs(source, schedule, PROGRAMS)
    source.line(")")


def backward_plan_facts(schedule: Schedule, analysed: Analysed) -> dict[str, object]:
    """The plain numbers of the plan, in the order of `BackwardPlan`'s fields."""
    flow, place, count = schedule.dataflow, schedule.placement, barrier_count(schedule)
    barriers = max(item.end() for item in schedule.placements if item.space == "shared")
    shape = register_shape(analysed)
    facts: dict[str, object] = {
        "tile_q": flow.tile_q,
        "tile_kv": flow.tile_kv,
        "query_tiles": flow.query_tiles,
        "head_dim": schedule.head_dim,
        "head_dim_v": schedule.head_dim_v,
        "threads": schedule.threads,
        "working_threads": 32 * sum(len(role.warps) for role in schedule.roles if role.program),
        "barriers": count,
        "planes": PLANES,
        "chunk": shape.chunk_bytes // (4 * LANES),
        "dq_chunks": shape.chunks,
        "parts": shape.parts,
        "deterministic": flow.deterministic,
        "last_first": flow.deterministic and begins_later(analysed),
        "dq_queries": shape.dq_queries,
        "splits_queries": shape.splits_queries,
        "lse_ahead": flow.buffer("lse").size // PAIR_BYTES,
        "delta_ahead": flow.buffer("delta").size // PAIR_BYTES,
        "k_offset": place("k").offset,
        "v_offset": place("v").offset,
    }
    for name in ("q", "do"):
        facts |= {f"{name}_offset": place(name).offset, f"{name}_stride": place(name).size, f"{name}_depth": place(name).depth}
    facts |= {"ds_offset": place("ds_out").offset, "ds_stride": place("ds_out").size // shape.slots, "ds_slots": shape.slots}
    staged = [item.offset for item in schedule.placements if item.buffer == "dq_out"]
    facts |= {"dq_offset": staged[0] if staged else 0, "dq_stride": shape.chunk_bytes}
    strips = next((item.offset for item in schedule.placements if item.buffer == "strips"), 0)
    facts |= {"strips_offset": strips, "strips_stride": shape.strips_bytes, "strips_queries": shape.strip_queries}
    facts |= {"rows_offset": place("rows").offset, "rows_stride": place("rows").size, "barriers_offset": barriers}
    facts |= {"starts_offset": barriers + BARRIER_BYTES * count, "shared_bytes": schedule.shared_bytes}
    choices = schedule.choices
    facts |= {"longest_first": choices.longest_first, "scatters": choices.scatters, "grows": choices.grows}
    return facts | {"l2_bytes": choices.l2_bytes}
