"""What the analyses say of a variant: the value that lowering and every backend start from."""

from dataclasses import dataclass, field
from typing import Literal

from attnspec.language.expr import Expr
from attnspec.language.source import NOWHERE, Span
from attnspec.language.spec import Spec

Address = Literal["scalar", "head", "row", "key", "distance", "element", "scattered"]


@dataclass(frozen=True)
class Range:
    """Half-open range [first, last) of element positions on the walked axis; empty if first >= last; not clipped.

    first, last: int expressions in SIZES, b, h, hkv, reads of tensors at those, `Search`, and the ends (inclusive) of the
    tile at hand: q_first, q_last when keys are walked, kv_first, kv_last when queries are walked. Indices of the language
    (global positions). The ends given are already clipped to the length, and the tile at hand is never empty.
    """

    first: Expr
    last: Expr
    reason: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Walk:
    """Which tiles of one axis a tile of the other axis needs, in element positions and so for any tile length.

    A tile is visited iff it meets a range of `seen`; visited, it is partial (needs the element mask) iff it meets a range of
    `hidden`, else full. `seen` covers every visible element, `hidden` every masked one that lies in a visited tile; neither
    is ever too small. The tail beyond the sequence's length is not in either: backends treat it as masked always.
    exact: no tile is visited or partial without need (up to the tile at hand).
    notes: why not exact, one reason each, in the words of the file.
    """

    axis: Literal["kv", "q"]
    seen: tuple[Range, ...]
    hidden: tuple[Range, ...]
    exact: bool
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LearnedGradient:
    """d(score)/d(element read) of one place where a learned tensor is read; `read` is that place.

    A tensor read at several places has several; the gradient of the tensor is the sum over them.
    reduced: the indices among b, h, q, kv that the address does not fix, so that the gradient sums over them.
    """

    tensor: str
    indices: tuple[Expr, ...]
    partial: Expr
    address: Address
    reduced: tuple[str, ...]


@dataclass(frozen=True)
class Derivative:
    """Derivatives of the score (and of the sink) as float expressions; shared values are equal sub-expressions.

    score: d(score out)/d(score in), where score in = scale * (q . k).
    learned: one entry a place where the score reads a learned tensor; sink: the same for the sink expression.
    reason: in words, with the formula.
    """

    score: Expr
    learned: tuple[LearnedGradient, ...]
    sink: tuple[LearnedGradient, ...]
    reason: str


@dataclass(frozen=True)
class Bounds:
    """Range of the score after all score statements, natural units; infinite where nothing is proved.

    half_range_log2: half the width in log2 units. needs_row_max: False only if the proof of DESIGN section 5 holds for the
    spec's dtype up to `longest_row` keys. reason: the sentence that `attnc explain` prints, with format, bound and length.
    """

    low: float
    high: float
    half_range_log2: float
    needs_row_max: bool
    longest_row: int
    reason: str


@dataclass(frozen=True)
class TensorRead:
    """How one read of a tensor in score or mask is addressed, what that means for a kernel, and what it costs."""

    tensor: str
    indices: tuple[Expr, ...]
    address: Address
    where: Literal["score", "mask", "sink", "scale"]
    reason: str


@dataclass(frozen=True)
class ElementCost:
    """Instructions an element costs, by unit, for one expression (score, mask, or derivative)."""

    mufu: float
    fma: float
    alu: float
    loads: float


@dataclass(frozen=True)
class Analysed:
    """A spec with everything the analyses found."""

    spec: Spec
    keys: Walk  # KV ranges of a query tile (forward)
    queries: Walk  # query ranges of a KV tile (backward)
    derivative: Derivative
    bounds: Bounds
    reads: tuple[TensorRead, ...]
    score_cost: ElementCost
    mask_cost: ElementCost
    derivative_cost: ElementCost
