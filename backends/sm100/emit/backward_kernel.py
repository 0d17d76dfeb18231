"""The backward's three kernels and the host function that launches them: prepare, the backward itself, convert."""

from attnspec.backends.cute.emit.dialect import attribute_names
from attnspec.backends.sm100.emit.kernel import sequences_of, tensor_names, write_dispatch, write_opening
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Schedule

from attnspec.language.spec import Spec

LOADED = (("q", "q"), ("k", "k"), ("v", "v"), ("do", "dout"))  # what TMA loads: name of the buffer, of the tensor
FEW = ("k", "v")  # buffers of one copy


def write_backward_kernels(source: Source, schedule: Schedule, spec: Spec) -> None:
    """`prepare_kernel`, `backward_kernel`, `convert_kernel` and `backward`."""
    _write_prepare(source, spec)
    _write_device(source, schedule, spec)
    _write_convert(source, spec)
    _write_host(source, spec)


def _declared(spec: Spec) -> str:
    return "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))


def _sums(spec: Spec, suffix: str = ": cute.Tensor") -> str:
    return "".join(f", {name}{suffix}" for name in sum_names(spec))


def _passed(spec: Spec) -> str:
    return "".join(f", {name}" for name in tensor_names(spec))


def sum_names(spec: Spec) -> list[str]:
    """Arguments that hold the gradients of learned tensors."""
    names = attribute_names(spec)
    return [f"d_{names[tensor.name]}" for tensor in spec.learned]


def _write_prepare(source: Source, spec: Spec) -> None:
    source.blank(2)
    source.line("@cute.kernel")
    names = ("out", "dout", "lse", "dlse", "rows", "sum_dq")
    arguments = f"{', '.join(f'{name}: cute.Tensor' for name in names)}{_declared(spec)}{_sums(spec)}"
    with source.block(f"def prepare_kernel({arguments}, sizes: tuple, facts: tuple):"):
        source.docstring("A CTA a query tile.")
        _write_tensors(source, spec)
        source.line(f"sums = {_sums_by_name(spec)}")
        source.line(f"prepare(PLAN, MODS, Sizes(*sizes), {_by_row(spec)}, {', '.join(names)}, tensors, sums)")


def _write_convert(source: Source, spec: Spec) -> None:
    source.blank(2)
    source.line("@cute.kernel")
    with source.block(f"def convert_kernel(sum_dq: cute.Tensor, dq: cute.Tensor{_declared(spec)}, sizes: tuple, facts: tuple):"):
        source.docstring("A CTA a query tile.")
        _write_tensors(source, spec)
        source.line("at = SimpleNamespace(sizes=Sizes(*sizes), tensors=tensors)")
        source.line(f"convert(PLAN, Sizes(*sizes), {_by_row(spec)}, Float32(softmax_scale(at)), sum_dq, dq)")


def _sums_by_name(spec: Spec) -> str:
    pairs = [f"{name.removeprefix('d_')}={name}" for name in sum_names(spec)]
    return f"SimpleNamespace({', '.join(pairs)})"


def _by_row(spec: Spec) -> str:
    """The sequences of a call by query blocks, and by key blocks, from the host's facts."""
    return f"{sequences_of(spec).module}.sequences(*facts)"


def _by_key(spec: Spec) -> str:
    return f"{sequences_of(spec).module}.sequences(facts[1], facts[0], facts[3], facts[2])"


def _write_tensors(source: Source, spec: Spec) -> None:
    names = ", ".join(f"{name}={name}" for name in tensor_names(spec))
    source.line(f"tensors = SimpleNamespace({names})")


def _write_device(source: Source, schedule: Schedule, spec: Spec) -> None:
    atoms = ", ".join(f"{name}_atom, {name}" for name, _ in LOADED)
    results = ", ".join(f"{name}: cute.Tensor" for name in ("rows", "sum_dq", "dk", "dv"))
    numbers = "sizes: tuple, facts: tuple, tiles_in_all: Int32, ctas: Int32, heads_together: Int32"
    source.blank(2)
    source.line("@cute.kernel")
    with source.block(f"def backward_kernel({atoms}, {results}{_declared(spec)}{_sums(spec)}, {numbers}):"):
        allocator = write_opening(source, schedule)
        with source.block("tiles = BackwardTiles("):
            for name, _ in LOADED:
                count = "1" if name in FEW else f"PLAN.{name}_depth"
                width = "head_dim" if name in ("q", "k") else "head_dim_v"
                boxes = f"{count} * -(-PLAN.{width} // PLAN.box_columns)"
                source.line(f"{name}=host.box(PLAN, {name}_atom, {name}, shared, PLAN.{name}_offset, {boxes}),")
            for name in ("rows", "sum_dq", "dk", "dv"):
                source.line(f"{name}={name},")
            source.line(f"sums={_sums_by_name(spec)},")
            source.line("shared=shared.toint(),")
            source.line("starts=starts,")
        source.line(")")
        _write_tensors(source, spec)
        source.line(f"blocks = {_by_row(spec)}.blocks(PLAN.tile_q, {_by_row(spec)}.facts, sizes[0])")
        source.line(f"sequences = KeySequences({_by_key(spec)}, blocks, {sequences_of(spec).module}_axis)")
        own = "Sizes(*sizes), cute.arch.block_idx()[0], ctas, tiles_in_all, heads_together, tensors, sequences"
        source.line(f"work = Work({own})")
        write_dispatch(source, schedule)
        source.line(f"tear_down(PLAN, starts, warp, {allocator})")


def _write_host(source: Source, spec: Spec) -> None:
    source.blank(2)
    source.line("@cute.jit")
    names = ["q", "k", "v", "out", "dout", "lse", "dlse", "dq", "dk", "dv", "rows", "sum_dq"]
    head = ", ".join(f"{name}: cute.Tensor" for name in names)
    sequences = sequences_of(spec)
    with source.block(
        f"def backward({head}{_declared(spec)}{_sums(spec)}, {sequences.parameters}, processors: Int32, stream: cuda.CUstream):"
    ):
        source.docstring(
            "Launch on `stream`: the pass before, the backward on `processors` multiprocessors at most, the pass after.",
            "",
            *sequences.about,
            "dout and dq are as q, dk and dv as k and v, dlse as lse. rows, sum_dq: scratch, f32: PLAN.planes and PLAN.width_qk",
            "numbers a row, query tiles whole.",
        )
        for name, tensor in LOADED:
            source.line(f"{name}_atom, {name}_source = host.load_atom(PLAN, {sequences.view.format(tensor)})")
        source.line(f"sizes = ({sequences.batch}, q.shape[2], k.shape[2], {sequences.lengths})")
        source.line(f"facts = (q.shape[1], k.shape[1], {sequences.facts})")
        source.line(f"by_row = {_by_row(spec)}")
        source.line("lanes = by_row.lanes(Sizes(*sizes))")
        source.line("across = by_row.blocks(PLAN.tile_q, by_row.facts, sizes[0]) * q.shape[2] * lanes")
        source.line(f"tiles_in_all = count(PLAN, Sizes(*sizes), {_by_key(spec)})")
        source.line("ctas = cutlass.max(cutlass.min(tiles_in_all, processors), 1)")
        source.line("heads_together = together(PLAN, Sizes(*sizes), q.shape[1])")
        source.line(
            f"prepared = prepare_kernel(out, dout, lse, dlse, rows, sum_dq{_passed(spec)}{_sums(spec, '')}, sizes, facts)"
        )
        source.line("prepared.launch(grid=[across, 1, 1], block=[PLAN.tile_q, 1, 1], stream=stream)")
        atoms = ", ".join(f"{name}_atom, {name}_source" for name, _ in LOADED)
        numbers = "sizes, facts, tiles_in_all, ctas, heads_together"
        source.line(f"launched = backward_kernel({atoms}, rows, sum_dq, dk, dv{_passed(spec)}{_sums(spec, '')}, {numbers})")
        source.line("block = [PLAN.threads, 1, 1]")
        source.line("launched.launch(grid=[ctas, 1, 1], block=block, smem=PLAN.shared_bytes, stream=stream, min_blocks_per_mp=1)")
        source.line(f"converted = convert_kernel(sum_dq, dq{_passed(spec)}, sizes, facts)")
        source.line("converted.launch(grid=[across, 1, 1], block=[PLAN.tile_q, 1, 1], stream=stream)")
