"""The kernel function (storage, set-up, warp dispatch) and the host function that launches it."""

from attnspec.backends.cute.emit.dispatch import write_dispatch
from attnspec.backends.cute.emit.sequences import sequences_of, tensor_names
from attnspec.backends.sm90.emit.plan import stream
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Schedule

from attnspec.language.spec import Spec


def write_kernel(source: Source, schedule: Schedule, spec: Spec) -> None:
    """`forward_kernel` and `forward`."""
    _write_device(source, schedule, spec)
    _write_host(source, spec)


def write_opening(source: Source) -> None:
    """What a CTA does before its roles part."""
    source.docstring("One CTA: storage, barriers, then a role for each warp.")
    source.line("warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())")
    source.line("shared = cutlass.memory.SmemAllocator().allocate(PLAN.shared_bytes, 1024)")
    source.line("pipes = Pipes(cute.recast_ptr(shared + PLAN.barriers_offset, dtype=Int64), PIPES)")
    source.line("starts = cute.recast_ptr(shared + PLAN.starts_offset, dtype=Int32)")
    source.line("set_up(PLAN, pipes, starts, warp)")


def _write_device(source: Source, schedule: Schedule, spec: Spec) -> None:
    atoms = "q_atom, q, k_atom, k, v_atom, v, o_atom, o"
    tensors = "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))
    source.blank(2)
    source.line("@cute.kernel")
    numbers = "sizes: tuple, facts: tuple, ctas: Int32, rounds: tuple"
    with source.block(f"def forward_kernel({atoms}, value: cute.Tensor, lse: cute.Tensor{tensors}, {numbers}):"):
        write_opening(source)
        _write_bundles(source, schedule, spec)
        write_dispatch(source, schedule)


def _write_bundles(source: Source, schedule: Schedule, spec: Spec) -> None:
    keys, values = stream(schedule)[0], stream(schedule)[-1]
    with source.block("tiles = Tiles("):
        for name, ring, depth in (
            ("q", "q", "query_tiles"),
            ("k", keys, f"{keys}_depth"),
            ("v", values, f"{values}_depth"),
            ("o", "o", "o_depth"),
        ):
            size, rows = ("key_box_bytes", ", PLAN.tile_kv") if name in "kv" else ("box_bytes", "")
            count = f"PLAN.{depth} * PLAN.{ring}_stride // PLAN.{size}"
            source.line(f"{name}=host.box(PLAN, {name}_atom, {name}, shared, PLAN.{ring}_offset, {count}{rows}),")
        source.line("value=value, lse=lse, shared=shared.toint(),")
        source.line("stats=None, starts=starts,")
    source.line(")")
    names = ", ".join(f"{name}={name}" for name in tensor_names(spec))
    source.line(f"tensors = SimpleNamespace({names})")
    own = "Sizes(*sizes), cute.arch.block_idx()[0], ctas, Rounds(*rounds), tensors"
    source.line(f"work = Work({own}, {sequences_of(spec).module}.sequences(*facts))")


def _write_host(source: Source, spec: Spec) -> None:
    tensors = "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))
    values = "".join(f", {name}" for name in tensor_names(spec))
    source.blank(2)
    source.line("@cute.jit")
    head = "q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, out: cute.Tensor, lse: cute.Tensor"
    sequences = sequences_of(spec)
    with source.block(f"def forward({head}{tensors}, {sequences.parameters}, processors: Int32, stream: cuda.CUstream):"):
        source.docstring(
            "Launch on `stream`, a CTA for each of `processors` multiprocessors at most.",
            *sequences.about,
        )
        for name, tensor, kind in (("q", "q", "load"), ("k", "k", "load"), ("v", "v", "load"), ("o", "out", "store")):
            rows = ", PLAN.tile_kv" if name in "kv" else ""
            source.line(f"{name}_atom, {name}_source = host.{kind}_atom(PLAN, {sequences.view.format(tensor)}{rows})")
        source.line(f"sizes = ({sequences.batch}, q.shape[2], k.shape[2], {sequences.lengths})")
        source.line(f"facts = (q.shape[1], k.shape[1], {sequences.facts})")
        given = f"PLAN, Sizes(*sizes), {sequences.module}.sequences(*facts), k.shape[1], processors"
        source.line(f"ctas, rounds = deal_tiles({given})")
        atoms = ", ".join(f"{name}_atom, {name}_source" for name in "qkvo")
        numbers = "sizes, facts, ctas, rounds"
        source.line(f"launched = forward_kernel({atoms}, v, lse{values}, {numbers})")
        limits = "block=[PLAN.threads, 1, 1], smem=PLAN.shared_bytes, stream=stream, min_blocks_per_mp=1"
        source.line(f"launched.launch(grid=[ctas, 1, 1], {limits})")
