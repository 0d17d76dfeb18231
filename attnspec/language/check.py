"""Tree to spec: the checker's steps in order."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.language import syntax
from attnspec.language.context import Context
from attnspec.language.declare import declare
from attnspec.language.definitions import give_def
from attnspec.language.expr import Expr, Number, tensors_read
from attnspec.language.faults import Faults
from attnspec.language.headers import Header, read_header
from attnspec.language.hidden import hidden_by
from attnspec.language.intervals import overflow_at_any_size
from attnspec.language.names import no_constants
from attnspec.language.overrides import Overrides
from attnspec.language.ranges import Ranges
from attnspec.language.source import NOWHERE, Span
from attnspec.language.spec import Constant, Spec
from attnspec.language.standard import standard_library
from attnspec.language.statements import find_mask, find_scale, find_sink, give_constant, give_let, give_score


@dataclass
class _Found:
    """Parts of the spec, as their statements are met."""

    constants: list[Constant] = field(default_factory=list)
    mask: Expr | None = None
    sink: Expr | None = None
    scale: Expr | None = None
    score_span: Span = NOWHERE
    mask_span: Span = NOWHERE


def check(tree: syntax.Tree, constants: Mapping[str, int | float] = {}) -> Spec:
    """The spec that a tree means. constants: values that override its `const`s. SpecError with every fault found."""
    faults = Faults()
    header = read_header(tree, faults)
    tensors = {}
    ctx = Context(faults, standard_library(), Ranges(tensors), tensors, later=_names_given(tree))
    overrides, found = Overrides(constants, faults), _Found()
    for statement in tree.statements:
        ctx.unknown.clear()
        _take(ctx, statement, header, overrides, found)
    overrides.refuse_unknown(tuple(item.name for item in found.constants), no_constants(ctx))
    if not faults.found:
        _check_whole(ctx, found)
    faults.stop_if_any()
    return _spec(ctx, header, found, tree)


def _names_given(tree: syntax.Tree) -> dict[str, Span]:
    """Where the file gives each of its names first."""
    given = [item.name for item in tree.statements if isinstance(item, syntax.Const | syntax.Declare | syntax.Let | syntax.Def)]
    return {word.text: word.span for word in reversed(given)}


def _take(ctx: Context, statement: syntax.Statement, header: Header, overrides: Overrides, found: _Found) -> None:
    """Let one statement have its effect."""
    match statement:
        case syntax.Const():
            constant = give_constant(ctx, statement, overrides)
            found.constants += [constant] if constant is not None else []
        case syntax.Declare():
            declare(ctx, statement, header.is_varlen)
        case syntax.Let():
            give_let(ctx, statement)
        case syntax.Def():
            give_def(ctx, statement)
        case syntax.Score():
            give_score(ctx, statement)
            found.score_span = statement.value.span
        case syntax.Mask():
            found.mask, found.mask_span = find_mask(ctx, statement), statement.value.span
        case syntax.Sink():
            found.sink = find_sink(ctx, statement)
        case syntax.Scale():
            found.scale = find_scale(ctx, statement)


def _check_whole(ctx: Context, found: _Found) -> None:
    """What can be said once every statement is known to be sound."""
    used = tensors_read(ctx.score) | (tensors_read(found.sink) if found.sink is not None else frozenset())
    for tensor in ctx.tensors.values():
        if tensor.is_learned and tensor.name not in used:
            message = f"`{tensor.name}` is learned, but neither score nor sink uses it: it would get no gradient"
            ctx.faults.add("learned-not-used", message, tensor.span, help="use it, or remove the line")
    exprs = [expr for expr in (ctx.score, found.mask, found.sink, found.scale) if expr is not None]
    overflow = overflow_at_any_size(exprs, ctx.tensors)
    if overflow is not None:
        ctx.faults.found.append(overflow)
    if found.mask is None:
        return
    part = hidden_by(found.mask, ctx.ranges)
    if part is not None:
        span = part.span if part.span.source is found.mask_span.source else found.mask_span
        help = "each row would be empty; check signs, and which side of the query the window lies on"
        ctx.faults.add("mask-hides-every-key", "this is false for every key", span, "never true", help)


def _spec(ctx: Context, header: Header, found: _Found, tree: syntax.Tree) -> Spec:
    scale = found.scale if found.scale is not None else Number(1 / math.sqrt(header.head_dim), "float")
    return Spec(
        name=header.name,
        head_dim=header.head_dim,
        head_dim_v=header.head_dim_v,
        group=header.group,
        dtype=header.dtype,
        scale=scale,
        is_varlen=header.is_varlen,
        constants=tuple(found.constants),
        tensors=tuple(ctx.tensors.values()),
        score=ctx.score,
        mask=found.mask,
        sink=found.sink,
        source=tree.source,
        score_span=found.score_span,
        mask_span=found.mask_span,
    )
