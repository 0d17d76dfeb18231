"""What a checked variant is: the value every later stage starts from."""

from dataclasses import dataclass, field
from typing import Literal

from attnspec.language.expr import Expr
from attnspec.language.source import NOWHERE, Source, Span

DType = Literal["bf16", "fp16"]
TensorDType = Literal["f32", "bf16", "fp16", "i32", "bool"]


@dataclass(frozen=True)
class Constant:
    """A `const`, its value after overrides."""

    name: str
    value: int | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Tensor:
    """An `input` or `learned` declaration.

    shape: int expressions in SIZES (a scalar has none), outermost axis first; the last axis is contiguous.
    low, high: inclusive range of the values (`in LO..HI`), int or float expressions in SIZES, or None.
    is_sorted: non-decreasing along the last axis.
    """

    name: str
    dtype: TensorDType
    shape: tuple[Expr, ...]
    is_learned: bool
    low: Expr | None = None
    high: Expr | None = None
    is_sorted: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Spec:
    """One variant, checked: names resolved, constants folded, `let` and `def` written out, kinds and indices proved.

    score: float expression; `score` in it is scale * (q . k). Name("score") itself when the file has no score statement.
    mask: bool expression, true = visible; None = all visible.
    sink: float expression in h (and size names), or None.
    scale: float expression, constant or a scalar input; 1/sqrt(head_dim) unless the file says otherwise.
    group: query heads per key/value head, None = taken from the tensors.
    """

    name: str
    head_dim: int
    head_dim_v: int
    group: int | None
    dtype: DType
    scale: Expr
    is_varlen: bool
    constants: tuple[Constant, ...]
    tensors: tuple[Tensor, ...]
    score: Expr
    mask: Expr | None
    sink: Expr | None
    source: Source = field(default=NOWHERE.source, compare=False, repr=False)
    score_span: Span = field(default=NOWHERE, compare=False, repr=False)
    mask_span: Span = field(default=NOWHERE, compare=False, repr=False)

    def tensor(self, name: str) -> Tensor:
        """The declaration of a tensor; KeyError if there is none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    @property
    def learned(self) -> tuple[Tensor, ...]:
        """Declarations that receive a gradient."""
        return tuple(tensor for tensor in self.tensors if tensor.is_learned)
