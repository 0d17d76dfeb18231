"""The `PLAN` literal: every number of the schedule that the kernel library needs."""

from collections.abc import Sequence
from itertools import groupby

from attnspec.backends.cute.emit.pipes import barrier_count
from attnspec.backends.cute.emit.plan import BARRIER_BYTES, ELEMENTS, write_programs
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Placement, Schedule

TYPES = {**ELEMENTS, "f32": "cutlass.Float32", "i32": "cutlass.Int32", "bool": "cutlass.Uint8"}
PROGRAMS = ("load", "mma")  # roles whose order of operations is the schedule's to say


def write_plan(source: Source, schedule: Schedule, dtype: str, tiles: Sequence[str] = ()) -> None:
    """`PLAN = Plan(...)`, a line a fact or two. tiles: types of the tensors of which TMA brings tiles."""
    with source.block("PLAN = Plan("):
        source.line(f"element={ELEMENTS[dtype]},")
        for _, facts in groupby(plan_facts(schedule).items(), key=lambda fact: fact[0].partition("_")[0]):
            source.line(" ".join(f"{name}={value}," for name, value in facts))
        write_programs(source, schedule, PROGRAMS)
        if tiles:
            places = [schedule.placement(f"tile{number}") for number in range(len(tiles))]
            lanes = schedule.dataflow.lanes
            rows = (_tile(TYPES[dtype], at, lanes) for dtype, at in zip(tiles, places, strict=True))
            source.line(f"tensor_tiles=({''.join(f'{row}, ' for row in rows).rstrip()}),")
        if schedule.dataflow.ctas > 1:
            source.line(f"ctas={schedule.dataflow.ctas},")
        if schedule.dataflow.key_tiles > 1:
            _write_key_tiles(source, schedule)
    source.line(")")


def _tile(element: str, place: Placement, lanes: int) -> str:
    """A tensor's tiles, in a slot of each lane's own or one for all."""
    return f"TensorTile({element}, {place.offset}, {place.size}, {place.size if place.depth == lanes else 0})"


def _write_key_tiles(source: Source, schedule: Schedule) -> None:
    """What steps of several key tiles have beside: values in a ring of their own, and places where maxima are handed on."""
    ring = schedule.placement("v")
    source.line(f"key_tiles={schedule.dataflow.key_tiles}, values=Ring({ring.offset}, {ring.size}, {ring.depth}),")
    if schedule.choices.needs_row_max:
        source.line(f"maxima_offset={schedule.placement('max0').offset},")


def plan_facts(schedule: Schedule) -> dict[str, object]:
    """The plain numbers of the plan, in the order of `Plan`'s fields."""
    flow, choices = schedule.dataflow, schedule.choices
    keys = "kv" if flow.key_tiles == 1 else "k"
    place, count = schedule.placement, barrier_count(schedule)
    barriers = max(item.end() for item in schedule.placements if item.space == "shared")
    return {
        "tile_q": flow.tile_q,
        "tile_kv": flow.tile_kv,
        "query_tiles": flow.query_tiles,
        "head_dim": schedule.head_dim,
        "head_dim_v": schedule.head_dim_v,
        "threads": schedule.threads,
        "working_threads": 32 * sum(len(role.warps) for role in schedule.roles if role.program),
        "barriers": count,
        "q_offset": place("q").offset,
        "q_stride": place("q").size,
        "kv_offset": place(keys).offset,
        "kv_stride": place(keys).size,
        "kv_depth": place(keys).depth,
        "o_offset": place("o_out").offset,
        "o_stride": place("o_out").size,
        "o_depth": place("o_out").depth,
        "stats_offset": place("stats").offset,
        **_staged_facts(schedule),
        "barriers_offset": barriers,
        "starts_offset": barriers + BARRIER_BYTES * count,
        "shared_bytes": schedule.shared_bytes,
        "s_column": place("s").offset,
        "s_stride": place("s").start(1) - place("s").start(0),
        "p_column": place("p").offset,
        "p_stride": place("p").start(1) - place("p").start(0),
        "o_column": place("o").offset,
        "o_column_stride": place("o").start(1) - place("o").start(0) if flow.key_tiles == 1 else 0,
        "tensor_columns": schedule.tensor_columns,
        "probability_split": choices.probability_split,
        "rescale_threshold": choices.rescale_threshold,
        "emulated_share": choices.emulated_share,
        "exponential_degree": choices.exponential_degree,
        "longest_first": choices.longest_first,
        "scatters": choices.scatters,
        "l2_bytes": choices.l2_bytes,
    }


def _staged_facts(schedule: Schedule) -> dict[str, object]:
    """Where values of keys and distances lie, if any are staged; `staged_stride` 0 says that there are none."""
    found = next((item for item in schedule.placements if item.buffer == "staged"), None)
    return {"staged_offset": found.offset if found else 0, "staged_stride": found.size if found else 0}
