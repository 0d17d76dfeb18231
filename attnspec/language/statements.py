"""What each statement may say: constants, declarations, names, and the rules of score, mask, sink and scale."""

from dataclasses import replace

from attnspec.language import syntax
from attnspec.language.context import Context
from attnspec.language.evaluate import evaluate_expr
from attnspec.language.expr import SIZES, Expr, Name, Number, Read, nodes
from attnspec.language.names import may_be_given
from attnspec.language.operators import as_float
from attnspec.language.overrides import Overrides
from attnspec.language.spec import Constant
from attnspec.language.values import FAULTY, KIND_WORDS


def give_constant(ctx: Context, statement: syntax.Const, overrides: Overrides) -> Constant | None:
    """`const NAME = NUMBER`, or a constant expression."""
    name = statement.name
    is_new = may_be_given(ctx, name, "build")
    value = evaluate_expr(ctx, statement.value)
    if is_new:
        ctx.values[name.text] = FAULTY
    if value is None:
        return None
    if not isinstance(value, Number):
        help = "a value known only at run time is an `input`; a name for an expression is a `let`"
        ctx.faults.add("not-constant", f"`{name.text}` is not a constant number", statement.value.span, help=help)
        return None
    found = overrides.apply(name.text, value)
    if is_new:
        ctx.values[name.text] = Number(found.value, found.kind, statement.value.span, name.text)
    return Constant(name.text, found.value, statement.span)


def give_let(ctx: Context, statement: syntax.Let) -> None:
    """`let NAME = EXPR`: the one node that the name stands for."""
    is_new = may_be_given(ctx, statement.name)
    value = evaluate_expr(ctx, statement.value)
    if is_new:
        ctx.values[statement.name.text] = FAULTY if value is None else labelled(value, statement.name.text)


def labelled(value: Expr, label: str) -> Expr:
    """The value under the name that a person gave it; a number is no more than its value."""
    return replace(value, label=label) if not isinstance(value, Number | Name) else value


def give_score(ctx: Context, statement: syntax.Score) -> None:
    """`score = EXPR`, over the score so far."""
    value = evaluate_expr(ctx, statement.value)
    if value is None:
        return
    if value.kind == "bool":
        help = "hide keys with `mask = ...`, or write `score + (1.0 if ... else 0.0)`"
        ctx.faults.add("kind-mismatch", "a score is a number, not a boolean", value.span, "is a boolean", help)
        return
    ctx.score = as_float(ctx, value)


def find_mask(ctx: Context, statement: syntax.Mask) -> Expr | None:
    """`mask = EXPR`."""
    value = evaluate_expr(ctx, statement.value)
    if value is None:
        return None
    if value.kind != "bool":
        help = "a mask is a condition, true where the key is visible; add numbers with `score = score + ...`"
        message = f"a mask is a boolean, not {KIND_WORDS[value.kind]}"
        ctx.faults.add("kind-mismatch", message, value.span, f"is {KIND_WORDS[value.kind]}", help)
        return None
    for at in nodes(value):
        if isinstance(at, Name) and at.name in ("score", "scale"):
            help = "write `score = score if score > ... else -inf`: a score of -inf hides its key"
            ctx.faults.add("score-in-mask", f"a mask cannot use `{at.name}`", at.span, help=help)
            return None
        if isinstance(at, Read) and ctx.tensors[at.tensor].is_learned:
            help = f"declare `{at.tensor}` as `input`"
            ctx.faults.add("learned-in-mask", f"no gradient reaches `{at.tensor}` through a mask", at.span, help=help)
            return None
    return value


def find_sink(ctx: Context, statement: syntax.Sink) -> Expr | None:
    """`sink = EXPR`: a logit a head."""
    value = evaluate_expr(ctx, statement.value)
    if value is None:
        return None
    if value.kind == "bool":
        ctx.faults.add("kind-mismatch", "a sink is a number, not a boolean", value.span, "is a boolean")
        return None
    for at in nodes(value):
        if isinstance(at, Name) and at.name not in ("h", "hkv", *SIZES):
            help = "a sink is one number a head: it may use `h`, `hkv`, sizes, tensors and constants"
            ctx.faults.add("not-per-head", f"a sink cannot use `{at.name}`", at.span, help=help)
            return None
    return as_float(ctx, value)


def find_scale(ctx: Context, statement: syntax.Scale) -> Expr | None:
    """`scale EXPR`: a constant, or scalar inputs too."""
    value = evaluate_expr(ctx, statement.value)
    if value is None:
        return None
    if value.kind == "bool":
        ctx.faults.add("kind-mismatch", "a scale is a number, not a boolean", value.span, "is a boolean")
        return None
    for at in nodes(value):
        used = at.name if isinstance(at, Name) else ""
        if isinstance(at, Read) and (at.indices or ctx.tensors[at.tensor].is_learned):
            used = at.tensor
        if used:
            help = "the scale is one number, of constants and scalar inputs; write `score = score * ...` instead"
            ctx.faults.add("scale-not-uniform", f"the scale cannot use `{used}`", at.span, help=help)
            return None
    return as_float(ctx, value)
