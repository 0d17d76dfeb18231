"""One tracing: the checker's context that expressions are built in, the tensors met, and the names given."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from attnspec.flex.captured import CapturedTensors
from attnspec.flex.names import Names
from attnspec.flex.place import Place
from attnspec.language import operators
from attnspec.language.context import Context
from attnspec.language.expr import Expr, Name, Number, Truth
from attnspec.language.faults import Faults
from attnspec.language.ranges import Ranges
from attnspec.language.source import Span
from attnspec.language.values import Value, is_expr


@dataclass
class Trace:
    """ctx: as the checker of a file has it, so that kinds, constants and proofs are the language's own.

    in_mask: a mask is being traced: what requires a gradient gets none through it.
    is_busy: torch works for the tracing itself, which is not to be traced.
    """

    sizes: Mapping[str, int | None]
    names: Names = field(default_factory=Names)
    in_mask: bool = False
    is_busy: bool = False
    made: dict[int, Any] = field(default_factory=dict)  # tensors that the function made from Python numbers, kept alive
    labels: dict[Expr, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tensors: dict[str, Any] = {}
        self.ctx = Context(Faults(), {}, Ranges(tensors), tensors)
        self.captured = CapturedTensors(self.ctx, self.names, dict(self.sizes))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Calls of torch in here are carried out."""
        before, self.is_busy = self.is_busy, True
        try:
            yield
        finally:
            self.is_busy = before

    def build(self, make: Callable[[Context, Span], Value], place: Place) -> Expr:
        """An expression made by the checker's operators; what they find wrong stops the tracing."""
        value = make(self.ctx, place.span)
        self.ctx.faults.stop_if_any()
        if not is_expr(value):
            raise TypeError(f"an expression is wanted, got {value}")
        return value

    def labelled(self, expr: Expr, place: Place) -> Expr:
        """The expression under the name of the variable that it is assigned to."""
        target = place.target
        if target is None or isinstance(expr, Number | Truth | Name):
            return expr
        if expr not in self.labels:
            self.labels[expr] = self.names.fresh(target)
        return operators.labelled(expr, self.labels[expr])

    def number(self, value: float, place: Place) -> Expr:
        """A Python number where it was used, by its name if that was given from outside."""
        written = place.name_of(value)
        label = self.names.constant(written, value) if written is not None and place.is_given(written) else None
        if value in (float("inf"), -float("inf")):
            return Number(value, "float", place.span)
        found = self.build(lambda ctx, span: operators.literal(ctx, value, span), place)
        return replace(found, label=label) if isinstance(found, Number) else found
