"""What the checker knows while it goes through a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.language.expr import Expr, Name, children
from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_DEPTH, MAX_NODES
from attnspec.language.ranges import Ranges
from attnspec.language.source import Span
from attnspec.language.spec import Tensor
from attnspec.language.syntax import Def
from attnspec.language.values import Value

MAX_STEPS = 50_000  # sub-expressions evaluated in one file, calls written out


@dataclass(frozen=True)
class Frame:
    """Where an expression stands: at the top of a file, or in the body of a function that is being written out.

    bound: the arguments. call: the place of the call, in the file of the person who wrote it.
    is_std: the body is the standard library's, so that faults and spans belong to the call.
    is_size: a size or the end of a range, which sizes and constants alone are meant in.
    """

    bound: Mapping[str, Value] = field(default_factory=dict)
    call: Span | None = None
    is_std: bool = False
    is_size: bool = False

    def place(self, span: Span) -> Span:
        """The span to show for something at `span`."""
        return self.call if self.is_std and self.call is not None else span


@dataclass
class Context:
    """One file's names and faults, filled statement by statement.

    values: consts, lets and tensors. given_at: where each name of the file was given. later: where each is given in all the file.
    score: the score so far, which the name `score` stands for. std: the functions of std.attn.
    """

    faults: Faults
    std: Mapping[str, Def]
    ranges: Ranges
    tensors: dict[str, Tensor]
    values: dict[str, Value] = field(default_factory=dict)
    defs: dict[str, Def] = field(default_factory=dict)
    given_at: dict[str, Span] = field(default_factory=dict)
    later: Mapping[str, Span] = field(default_factory=dict)
    score: Expr = field(default_factory=lambda: Name("score", "float"))
    depth: int = 0
    steps: int = 0
    unknown: set[str] = field(default_factory=set)  # names already reported in this statement
    measures: dict[Expr, tuple[int, int]] = field(default_factory=dict)

    def enter(self, span: Span) -> None:
        """Count one more level of evaluation; stop where the file asks for too much."""
        self.depth += 1
        self.steps += 1
        if self.depth > MAX_DEPTH:
            self.faults.stop("nested-too-deep", f"calls and operators are nested deeper than {MAX_DEPTH}", span)
        if self.steps > MAX_STEPS:
            self.faults.stop("too-much-to-expand", "the functions of this file grow too large when written out", span)

    def measured(self, expr: Expr) -> Expr:
        """The expression, if it is not too large as a tree nor too deep."""
        if expr in self.measures:
            return expr
        below = [self._measure(child) for child in children(expr)]
        size = 1 + sum(nodes for nodes, _ in below)
        depth = 1 + max((levels for _, levels in below), default=0)
        if size > MAX_NODES:
            message = f"this expression has more than {MAX_NODES} parts when its names are written out"
            self.faults.stop("expression-too-large", message, expr.span)
        if depth > MAX_DEPTH:
            message = f"this expression is nested deeper than {MAX_DEPTH} when its names are written out"
            self.faults.stop("nested-too-deep", message, expr.span)
        self.measures[expr] = (size, depth)
        return expr

    def _measure(self, expr: Expr) -> tuple[int, int]:
        return self.measures[self.measured(expr)]
