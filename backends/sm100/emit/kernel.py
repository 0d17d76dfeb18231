"""The kernel function (storage, set-up, warp dispatch) and the host function that launches it."""

from collections.abc import Sequence

from attnspec.backends.cute.emit.dialect import attribute_names
from attnspec.backends.cute.emit.dispatch import IDLE, write_dispatch
from attnspec.backends.cute.emit.sequences import sequences_of, tensor_names
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Role, Schedule

from attnspec.language.spec import Spec

# Boxes of keys and values where a pair of CTAs shares them: how many bytes they lie apart, rows, and how they are found.
PAIR_BOXES = {
    "k": ("key_box_bytes", ", PLAN.key_rows"),
    "v": ("kv_stride", ", PLAN.tile_kv, any_column=True, step=PLAN.kv_stride"),
}
STAND_BY = "stand_by"


def write_kernel(source: Source, schedule: Schedule, spec: Spec, packs: bool, tiled: Sequence[str] = ()) -> None:
    """`forward_kernel` and `forward`. packs: whether the heads of a group may share work tiles.

    tiled: tensors of which TMA brings tiles.
    """
    _write_device(source, schedule, spec, packs, tiled)
    _write_host(source, schedule, spec, packs, tiled)


def write_opening(source: Source, schedule: Schedule, lanes: str = "") -> int:
    """What every kernel does before its roles part; returns the warp that takes tensor memory."""
    source.docstring("One CTA: storage, barriers, then a role for each warp.")
    source.line("warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())")
    source.line("shared = cutlass.memory.SmemAllocator().allocate(PLAN.shared_bytes, 1024)")
    source.line(f"pipes = Pipes(cute.recast_ptr(shared + PLAN.barriers_offset, dtype=Int64), PIPES{lanes})")
    source.line("starts = cute.recast_ptr(shared + PLAN.starts_offset, dtype=Int32)")
    allocator = next(role for role in schedule.roles if role.kind == "mma").warps[0]
    source.line(f"set_up(PLAN, pipes, shared, starts, warp, {allocator})")
    return allocator


def _write_device(source: Source, schedule: Schedule, spec: Spec, packs: bool, tiled: Sequence[str]) -> None:
    atoms = "q_atom, q, k_atom, k, v_atom, v, o_atom, o"
    tensors = "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))
    source.blank(2)
    source.line("@cute.kernel")
    results = ", ".join(f"{name}: cute.Tensor" for name in ("value", "lse", "parts_out", "parts_stats"))
    numbers = "sizes: tuple, facts: tuple, ctas: Int32, rounds: tuple, parts: Int32"
    if packs:
        atoms, numbers = f"{atoms}, q_few_atom, q_few, o_few_atom, o_few", f"{numbers}, row_bits: Int32"
    atoms += "".join(f", tile{number}_atom, tile{number}" for number in range(len(tiled)))
    with source.block(f"def forward_kernel({atoms}, {results}{tensors}, {numbers}):"):
        # Beside a row of scores that the file rewrites before its maximum, what every lane's signal needs spills.
        is_full = any(operation.kind == "score" for operation in schedule.dataflow.operations)
        allocator = write_opening(source, schedule, "" if is_full else ", lanes=32")
        _write_bundles(source, schedule, spec, packs, len(tiled))
        write_roles(source, schedule)
        source.line(f"tear_down(PLAN, starts, warp, {allocator})")


def _write_bundles(source: Source, schedule: Schedule, spec: Spec, packs: bool, tiled: int) -> None:
    is_pair, values = schedule.dataflow.ctas > 1, ("kv_offset", "kv_stride", "kv_depth")
    if schedule.dataflow.key_tiles > 1:
        values = ("values.offset", "values.stride", "values.depth")
    with source.block("tiles = Tiles("):
        for name, offset, stride, depth in (
            ("q", "q_offset", "q_stride", "query_tiles"),
            ("k", "kv_offset", "kv_stride", "kv_depth"),
            ("v", *values),
            ("o", "o_offset", "o_stride", "o_depth"),
        ):
            size, rows = ("key_box_bytes", ", PLAN.tile_kv") if name in "kv" else ("box_bytes", "")
            if is_pair:
                size, rows = PAIR_BOXES.get(name, (size, rows))
            count = f"PLAN.{depth} * PLAN.{stride} // PLAN.{size}"
            source.line(f"{name}=host.box(PLAN, {name}_atom, {name}, shared, PLAN.{offset}, {count}{rows}),")
        source.line("value=value, lse=lse, parts_out=parts_out, parts_stats=parts_stats, shared=shared.toint(),")
        source.line("stats=cute.recast_ptr(shared + PLAN.stats_offset, dtype=Float32), starts=starts,")
        for name, depth in (("q", "query_tiles"), ("o", "o_depth")) if packs else ():
            count = f"PLAN.{depth} * PLAN.{name}_stride // (FEW * PLAN.row_bytes)"
            source.line(f"{name}_few=host.box(PLAN, {name}_few_atom, {name}_few, shared, PLAN.{name}_offset, {count}, FEW),")
        if tiled:
            names = (f"host.tensor_boxes(PLAN, tile{number}_atom, tile{number}, shared, {number})," for number in range(tiled))
            source.line(f"tensors=({' '.join(names)}),")
    source.line(")")
    names = ", ".join(f"{name}={name}" for name in tensor_names(spec))
    source.line(f"tensors = SimpleNamespace({names})")
    first, rank = ("cluster", ", rank=pair.rank()") if is_pair else ("block", "")
    own = f"Sizes(*sizes), cute.arch.{first}_idx()[0], ctas, Rounds(*rounds), tensors"
    cut = f", Cut({'row_bits' if packs else None}, parts)"
    source.line(f"work = Work({own}, {sequences_of(spec).module}.sequences(*facts){cut}{rank})")


def write_roles(source: Source, schedule: Schedule) -> None:
    """The dispatch; in a pair of CTAs warps without a role stand by, where all meet before the end."""
    otherwise = STAND_BY if schedule.dataflow.ctas > 1 and schedule.dataflow.direction == "forward" else None
    write_dispatch(
        source, schedule, lambda role: role_function(role, schedule), lambda role: _condition(role, schedule), otherwise
    )


def role_function(role: Role, schedule: Schedule) -> str:
    """The library's function for a role: where nothing is rescaled, finishing rows is all that correction does."""
    if schedule.dataflow.ctas > 1 and role.kind in ("load", IDLE):
        return STAND_BY if role.kind == IDLE else "load_pair"
    if schedule.dataflow.key_tiles > 1 and role.kind in ("load", "softmax"):
        return f"{role.kind}_keys"
    if role.rolls:
        return f"{role.kind}_rolling"
    kinds = {schedule.dataflow.operation(step.operation).kind for step in role.program}
    return "finish" if role.kind == "correction" and "rescale" not in kinds else role.kind


def role_functions(schedule: Schedule) -> list[str]:
    """The library's functions that a kernel's dispatch calls."""
    found = {role_function(role, schedule) for role in schedule.roles} | ({STAND_BY} if schedule.dataflow.ctas > 1 else set())
    return sorted(found - {IDLE})


def _condition(role: Role, schedule: Schedule) -> str:
    """Which warp runs a role: what is joint, only that of the CTA that leads."""
    is_joint = any(schedule.dataflow.operation(step.operation).joint for step in role.program)
    return f"(warp == {role.warps[0]}) & (pair.rank() == pair.LEADER)" if is_joint else f"warp == {role.warps[0]}"


def _write_host(source: Source, schedule: Schedule, spec: Spec, packs: bool, tiled: Sequence[str]) -> None:
    is_pair = schedule.dataflow.ctas > 1
    tensors = "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))
    values = "".join(f", {name}" for name in tensor_names(spec))
    source.blank(2)
    source.line("@cute.jit")
    head = "q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, out: cute.Tensor, lse: cute.Tensor"
    sequences = sequences_of(spec)
    last = "parts_out: cute.Tensor, parts_stats: cute.Tensor, parts: Int32, processors: Int32, stream: cuda.CUstream"
    with source.block(f"def forward({head}{tensors}, {sequences.parameters}, {last}):"):
        source.docstring(
            "Launch on `stream`, a CTA for each of `processors` multiprocessors at most.",
            *sequences.about,
            "parts: work tiles that share a row's keys; parts_out, parts_stats: their scratch, PLAN.width_v and 2 f32 each.",
        )
        for name, tensor, kind in (("q", "q", "load"), ("k", "k", "load"), ("v", "v", "load"), ("o", "out", "store")):
            view, few = sequences.view.format(tensor), f"{name}_few_atom, {name}_few_source"
            if packs and name in "qo":
                source.line(f"{name}_atom, {name}_source, {few} = host.row_atoms(PLAN, {view}, host.{kind}_atom)")
            else:
                rows = (", PLAN.key_rows" if is_pair and name == "k" else ", PLAN.tile_kv") if name in "kv" else ""
                source.line(f"{name}_atom, {name}_source = host.{kind}_atom(PLAN, {view}{rows})")
        own = attribute_names(spec)
        for number, name in enumerate(tiled):
            source.line(f"tile{number}_atom, tile{number} = host.tensor_atom(PLAN, {own[name]})")
        source.line(f"sizes = ({sequences.batch}, q.shape[2], k.shape[2], {sequences.lengths})")
        source.line(f"facts = (q.shape[1], k.shape[1], {sequences.facts})")
        if packs:
            source.line(f"row_bits = choose_row_bits(PLAN, {sequences.rows}, q.shape[2] // k.shape[2])")
        cut = f", Cut({'row_bits' if packs else None}, parts)"
        own = "cutlass.max(processors // pair.CTAS, Int32(1))" if is_pair else "processors"
        given = f"PLAN, Sizes(*sizes), {sequences.module}.sequences(*facts), k.shape[1], {own}{cut}"
        source.line(f"ctas, rounds = deal_tiles({given})")
        atoms = ", ".join(f"{name}_atom, {name}_source" for name in ("q", "k", "v", "o", *(("q_few", "o_few") if packs else ())))
        atoms += "".join(f", tile{number}_atom, tile{number}" for number in range(len(tiled)))
        more = ", parts, row_bits" if packs else ", parts"
        numbers = f"sizes, facts, ctas, rounds{more}"
        limits = "block=[PLAN.threads, 1, 1], smem=PLAN.shared_bytes, stream=stream, min_blocks_per_mp=1"
        source.line(f"launched = forward_kernel({atoms}, v, lse, parts_out, parts_stats{values}, {numbers})")
        cluster = "cluster=[pair.CTAS, 1, 1], " if is_pair else ""
        grid = "pair.CTAS * ctas" if is_pair else "ctas"
        source.line(f"launched.launch(grid=[{grid}, 1, 1], {cluster}{limits})")
        source.line("merge(PLAN, MODS.to_log2, out, lse, parts_out, parts_stats, parts, stream)")
