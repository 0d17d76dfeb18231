"""Facts of a compiled variant in JSON types: what a launch passes, and what the schedule promises."""

from collections.abc import Collection
from typing import Any

from attnspec.backends.cute.emit.dialect import attribute_names
from attnspec.backends.cute.emit.pipes import barrier_count
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.backward import PLANES
from attnspec.lowering.dataflow.backward_shape import shape_of
from attnspec.lowering.dataflow.tensor_tiles import packing_of, tiled_tensors
from attnspec.lowering.schedule.schedule import Schedule

from attnspec.language.show import show
from attnspec.language.spec import Spec


def manifest_of(analysed: Analysed, schedule: Schedule, architecture: str) -> dict[str, Any]:
    """Name, spec, constants, arguments of the host function, and the schedule's resources."""
    spec = analysed.spec
    return {
        "name": spec.name,
        "architecture": architecture,
        "spec": show(spec),
        "constants": {constant.name: constant.value for constant in spec.constants},
        "arguments": _arguments_of(spec, schedule),
        "work": work_of(analysed, schedule),
        "threads": schedule.threads,
        "shared_bytes": schedule.shared_bytes,
        "tensor_columns": schedule.tensor_columns,
        "barriers": barrier_count(schedule),
        "scratch": scratch_of(schedule) if schedule.dataflow.direction == "backward" else {},
        "exponential_error": schedule.choices.exponential_error if schedule.dataflow.direction == "forward" else 0.0,
        "roles": {role.name: {"warps": list(role.warps), "registers": role.registers} for role in schedule.roles},
    }


def work_of(analysed: Analysed, schedule: Schedule) -> dict[str, Any]:
    """Work tiles of a kernel that may share out the keys of the same rows; empty for one that has no such.

    rows, keys: of a work tile, and of a step; packs: whether heads of a group may share one; ctas: that work on one.
    """
    flow = schedule.dataflow
    if schedule.target != "sm100" or flow.direction != "forward":
        return {}
    packs = packing_of(analysed, flow).is_allowed
    return {"rows": flow.tile_q * flow.query_tiles * flow.ctas, "keys": flow.tile_kv, "packs": packs, "ctas": flow.ctas}


def _arguments_of(spec: Spec, schedule: Schedule) -> list[dict[str, Any]]:
    if schedule.dataflow.direction == "backward":
        return backward_arguments_of(spec, schedule.dataflow.deterministic)
    has_parts = schedule.target == "sm100"
    boxed = {tensor.name for tensor in tiled_tensors(spec, schedule.dataflow)} if has_parts else set[str]()
    return arguments_of(spec, boxed) + (parts_of() if has_parts else [])


def parts_of() -> list[dict[str, Any]]:
    """Scratch of results over parts of the keys, and how many parts there are."""
    scratch = [{"name": name, "dtype": "f32", "rank": 1, "width": None} for name in ("parts_out", "parts_stats")]
    return [*scratch, {"name": "parts", "dtype": "i32", "rank": 0, "width": None}]


def arguments_of(spec: Spec, boxed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Tensors that `forward` takes, in order. width: length of the last axis where the spec fixes it. boxed: declared tensors of
    which TMA takes boxes."""
    width, width_v = spec.head_dim, spec.head_dim_v
    given = [("q", width), ("k", width), ("v", width_v), ("out", width_v)]
    rows: list[dict[str, Any]] = [{"name": name, "dtype": spec.dtype, "rank": 4, "width": size} for name, size in given]
    rows.append({"name": "lse", "dtype": "f32", "rank": 3, "width": None})
    return rows + declared_of(spec, boxed) + places_of(spec)


def places_of(spec: Spec) -> list[dict[str, Any]]:
    """Where the sequences of a call are: their starts where packed, else the place of a part in the whole. rank 0: a number."""
    if spec.is_varlen:
        return [{"name": name, "dtype": "i32", "rank": 1, "width": None} for name in ("starts_q", "starts_kv")]
    numbers = ("q_first", "kv_first", "len_q", "len_kv")
    return [{"name": name, "dtype": "i32", "rank": 0, "width": None} for name in numbers]


def backward_arguments_of(spec: Spec, deterministic: bool = False) -> list[dict[str, Any]]:
    """Tensors that `backward` takes, in order: what is given, what it writes, its scratch, then the declared tensors, and sums of
    the learned ones."""
    width, width_v = spec.head_dim, spec.head_dim_v
    wide = [("q", width), ("k", width), ("v", width_v), ("out", width_v), ("dout", width_v)]
    results = [("dq", width), ("dk", width), ("dv", width_v)]

    def heads(pairs: list[tuple[str, int]]) -> list[dict[str, Any]]:
        return [{"name": name, "dtype": spec.dtype, "rank": 4, "width": size} for name, size in pairs]

    rows = [{"name": name, "dtype": "f32", "rank": 3, "width": None} for name in ("lse", "dlse")]
    scratch = [{"name": name, "dtype": "f32", "rank": 1, "width": None} for name in ("rows", "sum_dq")]
    scratch += [{"name": "turns", "dtype": "i32", "rank": 1, "width": None}] if deterministic else []
    names = attribute_names(spec)
    sums = [
        {"name": f"d_{names[tensor.name]}", "dtype": "f32", "rank": max(1, len(tensor.shape)), "width": None}
        for tensor in spec.learned
    ]
    if deterministic:
        sums += [{"name": f"e_{names[tensor.name]}", "dtype": "i64", "rank": 1, "width": None} for tensor in spec.learned]
    return [*heads(wide), *rows, *heads(results), *scratch, *declared_of(spec), *sums, *places_of(spec)]


EXACT_WORDS = 10  # of 64 bits, of a sum that is exact: `exact_sum.WORDS` in the kernel library


def scratch_of(schedule: Schedule) -> dict[str, int]:
    """Numbers (f32) that a row of a query tile takes in the scratch tensors; tiles are whole. turns: words (i32) of a tile.
    exact_words: of 64 bits, 0 at first, of an element of a learned tensor.
    """
    flow = schedule.dataflow
    deterministic, shape = flow.deterministic, shape_of(schedule.head_dim, schedule.head_dim_v, flow.ctas)
    more = {"turns": shape.parts * flow.ctas, "exact_words": EXACT_WORDS} if deterministic else {"turns": 0, "exact_words": 0}
    return {"tile_q": schedule.dataflow.tile_q, "planes": PLANES, "width": shape.parts * shape.sum_width, **more}


def declared_of(spec: Spec, boxed: Collection[str] = ()) -> list[dict[str, Any]]:
    """The variant's own tensors; `boxed` is told only of those that are."""
    names = attribute_names(spec)
    return [
        {"name": names[tensor.name], "dtype": tensor.dtype, "rank": max(1, len(tensor.shape)), "width": None}
        | ({"boxed": True} if tensor.name in boxed else {})
        for tensor in spec.tensors
    ]
