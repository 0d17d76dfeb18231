"""The `PLAN` literal: every number of the schedule that the kernel library needs."""

from itertools import groupby

from attnspec.backends.cute.emit.pipes import barrier_count
from attnspec.backends.cute.emit.plan import BARRIER_BYTES, ELEMENTS, write_programs
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.forward_in_registers import board_places
from attnspec.lowering.schedule.schedule import Placement, Schedule

PROGRAMS = ("load", "attend")  # roles whose order of operations is the schedule's to say
GROUP_ROWS = 64


def write_plan(source: Source, schedule: Schedule, analysed: Analysed) -> None:
    """`PLAN = Plan(...)`, a line a fact or two."""
    dtype, places = analysed.spec.dtype, board_places(analysed)
    with source.block("PLAN = Plan("):
        source.line(f"element={ELEMENTS[dtype]},")
        for _, facts in groupby(plan_facts(schedule, places).items(), key=lambda fact: fact[0].partition("_")[0]):
            source.line(" ".join(f"{name}={value}," for name, value in facts))
        write_programs(source, schedule, PROGRAMS)
    source.line(")")


def stream(schedule: Schedule) -> tuple[str, ...]:
    """The rings that keys and values come through, one for both or one each."""
    placed = {item.buffer for item in schedule.placements}
    return ("kv",) if "kv" in placed else ("k", "v")


def _ring(place: Placement) -> dict[str, int]:
    return {"offset": place.offset, "stride": place.size, "depth": place.depth}


def plan_facts(schedule: Schedule, places: int) -> dict[str, object]:
    """The plain numbers of the plan, in the order of `Plan`'s fields. places: that are posted for a tile."""
    flow, choices = schedule.dataflow, schedule.choices
    place, count = schedule.placement, barrier_count(schedule)
    barriers = max(item.end() for item in schedule.placements if item.space == "shared")
    groups = flow.tile_q // GROUP_ROWS
    staged, board = (next((item for item in schedule.placements if item.buffer == name), None) for name in ("staged", "board"))
    return {
        "tile_q": flow.tile_q,
        "tile_kv": flow.tile_kv,
        "query_tiles": flow.query_tiles,
        "head_dim": schedule.head_dim,
        "head_dim_v": schedule.head_dim_v,
        "threads": schedule.threads,
        "working_threads": 32 * sum(len(role.warps) for role in schedule.roles if role.program),
        "warpgroups": groups,
        "takes_turns": choices.takes_turns,
        "barriers": count,
        "q_offset": place("q").offset,
        "q_stride": place("q").size,
        **{f"{name}_{fact}": number for name in stream(schedule) for fact, number in _ring(place(name)).items()},
        "o_offset": place("o_out").offset,
        "o_stride": place("o_out").size,
        "o_depth": place("o_out").depth,
        "staged_offset": staged.offset if staged else 0,
        "staged_stride": staged.size // groups if staged else 0,
        **({"board_offset": board.offset, "board_places": places} if board else {}),
        "barriers_offset": barriers,
        "starts_offset": barriers + BARRIER_BYTES * count,
        "shared_bytes": schedule.shared_bytes,
        "rescale_threshold": choices.rescale_threshold,
        "emulated_share": choices.emulated_share,
        "exponential_degree": choices.exponential_degree,
        "longest_first": choices.longest_first,
        "scatters": choices.scatters,
        "l2_bytes": choices.l2_bytes,
    }
