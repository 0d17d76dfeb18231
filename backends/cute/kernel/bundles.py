"""What a role is handed beside the plan and the pipes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Box:
    """One TMA tensor: a box is 128 rows of 64 elements. source: partitioned global view, boxes: partitioned shared view.

    source is indexed (box, first row, column block, head, outermost axis), boxes (box, index).
    """

    atom: Any
    source: Any
    boxes: Any


@dataclass(frozen=True)
class Tiles:
    """Memory of a kernel. value: v as given. shared: Int32 address of dynamic shared memory.

    stats: pointer to f32 [query tile][2][row], a row's factor or sum and its maximum.
    starts: pointer to words: the start of tensor memory and that of shared memory in 16-byte units, which each role reads for
    itself, since held from the kernel's beginning they spill; then the number of the first doubtful work tile (see `unseen`).
    q_few, o_few: q and o in boxes of a few rows, for work tiles of several heads; None where there are none.
    parts_out, parts_stats: where work tiles that share out keys leave products, maxima and sums, see `merge`.
    tensors: boxes of the variant's tensors of which tiles are brought.
    """

    q: Box
    k: Box
    v: Box
    o: Box
    value: Any
    lse: Any
    shared: Any
    stats: Any
    starts: Any
    q_few: Any = None
    o_few: Any = None
    parts_out: Any = None
    parts_stats: Any = None
    tensors: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A value of a key or of a distance that is brought to shared memory once a tile. value(place, at): it, a float or an int.

    axis: "key" (place: the key's position) or "distance" (place: q - kv); or "element", a tensor's element for each query and
    key: value(q, kv, at), and where(at): indices of its axes but the last two. in_score: whether not only the mask needs it.
    """

    value: Callable[..., Any]
    axis: str
    is_float: bool
    in_score: bool
    where: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Mods:
    """The variant's functions, as emitted.

    keys(at): ranges [first, last) of keys that a work tile sees. hidden(at): ranges in which a query tile has masked elements.
    row(q, at): values of one row, computed once. score(score, q, kv, at, row): the new score, or None if unchanged.
    mask(q, first, at, row): word of the keys from `first` on (see `asking`) that it sees, or None. sink(at): logit that joins the
    denominator, or None. scale(at): softmax scale, or None where it is folded into to_log2.
    to_log2: factor from what `score` gives (from q . k itself, where nothing comes between) to log2 units.
    midpoint: what stands for the row maximum where the score is bounded, in the units of `score`; None where it is not.
    score_reads, mask_reads: whether an element of the score, of the mask, needs a load, or so much work that registers run out.
    stages: values in shared memory; where there are some, score and mask are also given what reads them.
    """

    keys: Callable[..., Any]
    hidden: Callable[..., Any]
    row: Callable[..., Any]
    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    sink: Callable[..., Any] | None
    scale: Callable[..., Any] | None
    to_log2: float
    midpoint: float | None
    score_reads: bool
    mask_reads: bool
    stages: tuple[Stage, ...] = ()

    @property
    def hides(self) -> bool:
        """Whether a row may not see a key that is there; without mask and score it sees all."""
        return self.mask is not None or self.score is not None
