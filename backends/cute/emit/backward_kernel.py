"""The backward's three kernels and the host function that launches them: prepare, the backward itself, convert."""

from collections.abc import Callable
from dataclasses import dataclass

from attnspec.backends.cute.emit.dialect import attribute_names
from attnspec.backends.cute.emit.sequences import sequences_of, tensor_names
from attnspec.backends.source import Source
from attnspec.lowering.schedule.schedule import Schedule

from attnspec.language.spec import Spec

TENSOR = ": cute.Tensor"


@dataclass(frozen=True)
class Loaded:
    """A buffer that TMA fills, in boxes. tensor: out of which; width: the plan's name of its head dimension.

    copies: how many tiles; rows: of a box, "" for those of a query tile; boxes: of a tile, None for as many as its head dimension
    has. of: the buffer whose descriptor serves this one too. by_column: boxes are found by their first column.
    """

    name: str
    tensor: str
    width: str
    copies: str
    rows: str = ""
    boxes: str | None = None
    of: str | None = None
    by_column: bool = False

    @property
    def in_box(self) -> str:
        """Rows of a box, as an argument."""
        return f", {self.rows}" if self.rows else ""

    @property
    def count(self) -> str:
        """All boxes."""
        return self.boxes or f"{self.copies} * PLAN.boxes(PLAN.{self.width})"


LOADED = (
    Loaded("q", "q", "head_dim", "PLAN.q_depth"),
    Loaded("k", "k", "head_dim", "1", "PLAN.tile_kv"),
    Loaded("v", "v", "head_dim_v", "1", "PLAN.tile_kv"),
    Loaded("do", "dout", "head_dim_v", "PLAN.do_depth"),
)
# Of a pair of CTAs: half of the rows of a query tile, half of the columns of all rows; keys by rows, and by columns.
LOADED_BY_PAIR = (
    Loaded("q", "q", "head_dim", "PLAN.q_depth", "PLAN.q_rows"),
    Loaded("k", "k", "head_dim", "1", "PLAN.tile_kv"),
    Loaded("v", "v", "head_dim_v", "1", "PLAN.tile_kv"),
    Loaded("do", "dout", "head_dim_v", "PLAN.do_depth", "PLAN.q_rows"),
    Loaded("q_columns", "q", "", "", "PLAN.tile_q", "PLAN.q_columns_depth", by_column=True),
    Loaded("do_columns", "dout", "", "", "PLAN.tile_q", "PLAN.do_columns_depth", by_column=True),
    Loaded("k_columns", "k", "", "", "PLAN.tile_kv", "PLAN.ctas", "k", by_column=True),
)


@dataclass(frozen=True)
class Frame:
    """What a target writes around the roles. opening: what a CTA does before they part; dispatch: a line a role; closing: what
    it does after them, in lines. row_tiles: the pass before takes out and dout by TMA, `row_tiles` of the target's library.
    processors: for a CTA, or a pair, each, in the host's names; None where there is a CTA a work tile. loaded: what TMA loads.
    is_pair: two CTAs share a work tile."""

    opening: Callable[[Source, Schedule], object]
    dispatch: Callable[[Source, Schedule], None]
    closing: Callable[[Schedule], tuple[str, ...]]
    row_tiles: bool = False
    processors: str | None = "processors"
    loaded: tuple[Loaded, ...] = LOADED
    is_pair: bool = False

    @property
    def atoms(self) -> tuple[Loaded, ...]:
        """What has a descriptor of its own."""
        return tuple(item for item in self.loaded if item.of is None)


def write_backward_kernels(source: Source, schedule: Schedule, spec: Spec, frame: Frame) -> None:
    """`prepare_kernel`, `backward_kernel`, `convert_kernel`, for exact sums `settle_kernel`, and `backward`."""
    sums = _Sums(spec, is_exact(schedule, spec))
    _write_prepare(source, spec, sums, schedule.dataflow.deterministic, frame.row_tiles)
    _write_device(source, schedule, spec, sums, frame)
    _write_convert(source, spec)
    if sums.exact:
        _write_settle(source, sums)
    _write_host(source, spec, sums, schedule.dataflow.deterministic, frame)


def has_padding(schedule: Schedule) -> bool:
    """Whether no load fills all of some buffer: what pads it to whole parts is cleared once."""
    return any(value.part is not None and not value.spreads for value in schedule.dataflow.values)


def is_exact(schedule: Schedule, spec: Spec) -> bool:
    """Whether sums of learned tensors are exact: where bits may not depend on the order of adding."""
    return schedule.dataflow.deterministic and bool(spec.learned)


@dataclass(frozen=True)
class _Sums:
    """Gradients of learned tensors among a kernel's arguments: f32 tensors `d_NAME`, and `e_NAME` for what makes them exact."""

    spec: Spec
    exact: bool

    @property
    def names(self) -> list[str]:
        """Those of the tensors, as the spec's expressions call them."""
        names = attribute_names(self.spec)
        return [names[tensor.name] for tensor in self.spec.learned]

    @property
    def arguments(self) -> list[str]:
        """In the order in which kernels take them."""
        kinds = ("d", "e") if self.exact else ("d",)
        return [f"{kind}_{name}" for kind in kinds for name in self.names]

    def passed(self, suffix: str = "") -> str:
        """All of them, after other arguments."""
        return "".join(f", {name}{suffix}" for name in self.arguments)

    def one(self, name: str) -> str:
        """What a kernel adds to."""
        return f"Exact(d_{name}, e_{name})" if self.exact else f"d_{name}"

    @property
    def by_name(self) -> str:
        """The bundle of all."""
        return f"SimpleNamespace({', '.join(f'{name}={self.one(name)}' for name in self.names)})"


def _declared(spec: Spec) -> str:
    return "".join(f", {name}: cute.Tensor" for name in tensor_names(spec))


def _passed(spec: Spec) -> str:
    return "".join(f", {name}" for name in tensor_names(spec))


def _write_prepare(source: Source, spec: Spec, sums: _Sums, deterministic: bool, row_tiles: bool) -> None:
    source.blank(2)
    source.line("@cute.kernel")
    given = ("out_atom", "out", "do_atom", "do") if row_tiles else ("out: cute.Tensor", "dout: cute.Tensor")
    names = ("lse", "dlse", *_scratch(deterministic))
    arguments = f"{', '.join(f'{name}: cute.Tensor' for name in names)}{_declared(spec)}{sums.passed(TENSOR)}"
    with source.block(f"def prepare_kernel({', '.join(given)}, {arguments}, sizes: tuple, facts: tuple):"):
        source.docstring("A CTA a query tile.")
        if row_tiles:
            source.line("tiles = row_tiles(PLAN, out_atom, out, do_atom, do)")
        _write_tensors(source, spec)
        source.line(f"sums = {sums.by_name}")
        turns, rows = "" if deterministic else ", None", "tiles" if row_tiles else "out, dout"
        source.line(f"prepare(PLAN, MODS, Sizes(*sizes), {_by_row(spec)}, {rows}, {', '.join(names)}{turns}, tensors, sums)")


def _write_convert(source: Source, spec: Spec) -> None:
    source.blank(2)
    source.line("@cute.kernel")
    with source.block(f"def convert_kernel(sum_dq: cute.Tensor, dq: cute.Tensor{_declared(spec)}, sizes: tuple, facts: tuple):"):
        source.docstring("A CTA a query tile.")
        _write_tensors(source, spec)
        scale = "Float32(softmax_scale(SimpleNamespace(sizes=Sizes(*sizes), tensors=tensors)))"
        source.line(f"convert(PLAN, Sizes(*sizes), {_by_row(spec)}, {scale}, sum_dq, dq)")


def _write_settle(source: Source, sums: _Sums) -> None:
    source.blank(2)
    source.line("@cute.kernel")
    with source.block(f"def settle_kernel({sums.passed(TENSOR).removeprefix(', ')}):"):
        source.docstring("A thread an element of a learned tensor.")
        for name in sums.names:
            source.line(f"settle({sums.one(name)}, PLAN.tile_q)")


def _scratch(deterministic: bool) -> tuple[str, ...]:
    """Tensors that the kernels hand to one another."""
    return ("rows", "sum_dq", "turns") if deterministic else ("rows", "sum_dq")


def _by_row(spec: Spec) -> str:
    """The sequences of a call by query blocks, and by key blocks, from the host's facts."""
    return f"{sequences_of(spec).module}.sequences(*facts)"


def _by_key(spec: Spec) -> str:
    return f"{sequences_of(spec).module}.sequences(facts[1], facts[0], facts[3], facts[2])"


def _write_tensors(source: Source, spec: Spec) -> None:
    names = ", ".join(f"{name}={name}" for name in tensor_names(spec))
    source.line(f"tensors = SimpleNamespace({names})")


def _write_device(source: Source, schedule: Schedule, spec: Spec, sums: _Sums, frame: Frame) -> None:
    atoms = ", ".join(f"{item.name}_atom, {item.name}" for item in frame.atoms)
    names = (*_scratch(schedule.dataflow.deterministic), "dk", "dv")
    results = ", ".join(f"{name}{TENSOR}" for name in names)
    numbers = "sizes: tuple, facts: tuple, ctas: Int32, rounds: tuple"
    source.blank(2)
    source.line("@cute.kernel")
    with source.block(f"def backward_kernel({atoms}, {results}{_declared(spec)}{sums.passed(TENSOR)}, {numbers}):"):
        frame.opening(source, schedule)
        if has_padding(schedule):
            source.line("clear_padding(PLAN, shared)")
        with source.block("tiles = BackwardTiles("):
            for item in frame.loaded:
                name, atom, more = item.name, item.of or item.name, ", any_column=True" if item.by_column else ""
                arguments = f"PLAN, {atom}_atom, {atom}, shared, PLAN.{name}_offset, {item.count}{item.in_box}{more}"
                source.line(f"{name}=host.box({arguments}),")
            memory = " ".join(f"{name}={name}," for name in names)
            source.line(f"{memory} sums={sums.by_name}, shared=shared.toint(), starts=starts,")
        source.line(")")
        _write_tensors(source, spec)
        source.line(f"blocks = {_by_row(spec)}.blocks(PLAN.tile_q, {_by_row(spec)}.facts, sizes[0])")
        source.line(f"sequences = KeySequences({_by_key(spec)}, blocks, {sequences_of(spec).module}_axis)")
        first, rank = ("cluster", ", rank=pair.rank()") if frame.is_pair else ("block", "")
        own = f"Sizes(*sizes), cute.arch.{first}_idx()[0], ctas, Rounds(*rounds), tensors, sequences{rank}"
        source.line(f"work = Work({own})")
        frame.dispatch(source, schedule)
        for line in frame.closing(schedule):
            source.line(line)


def _write_host(source: Source, spec: Spec, sums: _Sums, deterministic: bool, frame: Frame) -> None:
    source.blank(2)
    source.line("@cute.jit")
    names = ["q", "k", "v", "out", "dout", "lse", "dlse", "dq", "dk", "dv", *_scratch(deterministic)]
    head = ", ".join(f"{name}: cute.Tensor" for name in names)
    sequences = sequences_of(spec)
    tensors = f"{head}{_declared(spec)}{sums.passed(TENSOR)}"
    with source.block(f"def backward({tensors}, {sequences.parameters}, processors: Int32, stream: cuda.CUstream):"):
        source.docstring(
            "Launch on `stream`: the pass before, the backward on `processors` multiprocessors at most, the pass after.",
            "",
            *sequences.about,
            "dout and dq are as q, dk and dv as k and v, dlse as lse. rows, sum_dq: scratch, f32: PLAN.planes and PLAN.sum_width",
            f"numbers a row, query tiles whole.{' turns: i32, a word a query tile.' if deterministic else ''}",
        )
        for item in frame.atoms:
            view = f"{sequences.view.format(item.tensor)}{item.in_box}"
            source.line(f"{item.name}_atom, {item.name}_source = host.load_atom(PLAN, {view})")
        source.line(f"sizes = ({sequences.batch}, q.shape[2], k.shape[2], {sequences.lengths})")
        source.line(f"facts = (q.shape[1], k.shape[1], {sequences.facts})")
        source.line(f"by_row = {_by_row(spec)}")
        source.line("across = by_row.blocks(PLAN.tile_q, by_row.facts, sizes[0]) * q.shape[2] * by_row.lanes(Sizes(*sizes))")
        own = "" if frame.processors is None else f", {frame.processors}"
        source.line(f"ctas, rounds = deal_key_tiles(PLAN, Sizes(*sizes), {_by_key(spec)}, q.shape[1]{own})")
        _write_launches(source, spec, sums, deterministic, frame)


def _write_launches(source: Source, spec: Spec, sums: _Sums, deterministic: bool, frame: Frame) -> None:
    scratch = ", ".join(_scratch(deterministic))
    rows, shape = "out, dout", "grid=[across, 1, 1], block=[PLAN.tile_q, 1, 1]"
    first = shape
    if frame.row_tiles:
        view, single = sequences_of(spec).view, ", ctas=1" if frame.is_pair else ""
        source.line(f"out_atom, out_source = host.load_atom(PLAN, {view.format('out')}, PLAN.tile_kv{single})")
        rows = "out_atom, out_source, do_atom, do_source"
        if frame.is_pair:
            source.line(f"dout_atom, dout_source = host.load_atom(PLAN, {view.format('dout')}, PLAN.tile_q{single})")
            rows = "out_atom, out_source, dout_atom, dout_source"
        first = "grid=[across, 1, 1], block=[PLAN.tile_kv, 1, 1], smem=PLAN.row_tiles_bytes"
    given = f"{rows}, lse, dlse, {scratch}{_passed(spec)}{sums.passed()}, sizes, facts"
    source.line(f"prepare_kernel({given}).launch({first}, stream=stream)")
    atoms = ", ".join(f"{item.name}_atom, {item.name}_source" for item in frame.atoms)
    numbers = "sizes, facts, ctas, rounds"
    source.line(f"launched = backward_kernel({atoms}, {scratch}, dk, dv{_passed(spec)}{sums.passed()}, {numbers})")
    # CTAs that wait for one another must all run at once; the driver refuses a cooperative launch that cannot.
    more = ", cooperative=True" if deterministic else ""
    wide = "grid=[pair.CTAS * ctas, 1, 1], cluster=[pair.CTAS, 1, 1]" if frame.is_pair else "grid=[ctas, 1, 1]"
    grid = f"{wide}, block=[PLAN.threads, 1, 1], smem=PLAN.shared_bytes"
    source.line(f"launched.launch({grid}, stream=stream, min_blocks_per_mp=1{more})")
    last = "grid=[across, 1, 1], block=[PLAN.convert_threads, 1, 1]"
    source.line(f"convert_kernel(sum_dq, dq{_passed(spec)}, sizes, facts).launch({last}, stream=stream)")
    if sums.exact:
        all_sums = sums.passed().removeprefix(", ")
        source.line(f"settle_kernel({all_sums}).launch(grid=[processors, 1, 1], block=[PLAN.tile_q, 1, 1], stream=stream)")
