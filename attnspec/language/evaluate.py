"""From syntax to typed expressions: names looked up, `let` and `def` written out, constants folded."""

from attnspec.language import operators, syntax
from attnspec.language.context import Context, Frame
from attnspec.language.expr import Expr, Truth
from attnspec.language.functions import BUILTINS, apply_builtin
from attnspec.language.indexing import read
from attnspec.language.names import definition_of, given_later, known_names, unknown, value_of
from attnspec.language.source import Span
from attnspec.language.suggest import did_you_mean
from attnspec.language.syntax import SyntaxExpr
from attnspec.language.values import FAULTY, Faulty, NoValue, Value, WholeTensor, describe, is_expr


def evaluate(ctx: Context, expr: SyntaxExpr, frame: Frame) -> Value:
    """The value of an expression; FAULTY, with the fault recorded, if it has none."""
    span = frame.place(expr.span)
    ctx.enter(span)
    try:
        return _evaluate(ctx, expr, frame, span)
    finally:
        ctx.depth -= 1


def _evaluate(ctx: Context, expr: SyntaxExpr, frame: Frame, span: Span) -> Value:
    match expr:
        case syntax.Literal():
            return operators.literal(ctx, expr.value, span)
        case syntax.Flag():
            return Truth(expr.value, span)
        case syntax.Nothing():
            return NoValue(span)
        case syntax.Ident():
            return _name(ctx, expr.name, frame, span)
        case syntax.Apply():
            return _apply(ctx, expr, frame, span)
        case syntax.Element():
            return _element(ctx, expr, frame, span)
        case syntax.Prefix():
            return _prefix(ctx, expr, frame, span)
        case syntax.Infix():
            return _infix(ctx, expr, frame, span)
        case syntax.Chain():
            return _chain(ctx, expr, frame, span)
        case syntax.IsNone():
            return _is_none(ctx, expr, frame, span)
        case syntax.Choice():
            return _choice(ctx, expr, frame, span)


def _name(ctx: Context, name: str, frame: Frame, span: Span) -> Value:
    found = value_of(ctx, name, frame, span)
    if found is not None:
        return found
    definition = definition_of(ctx, name, frame)
    if definition is not None and not definition.parameters:
        return _write_out(ctx, definition, (), frame, span)
    if definition is not None or name in BUILTINS:
        usage = BUILTINS[name].usage if definition is None else _usage(definition)
        ctx.faults.add("function-without-arguments", f"`{name}` is a function", span, help=f"call it: `{usage}`")
        return FAULTY
    return unknown(ctx, name, frame, span)


def _usage(definition: syntax.Def) -> str:
    return f"{definition.name.text}({', '.join(word.text for word in definition.parameters)})"


def _apply(ctx: Context, expr: syntax.Apply, frame: Frame, span: Span) -> Value:
    name = expr.function.text
    arguments = tuple(evaluate(ctx, argument, frame) for argument in expr.arguments)
    if name in BUILTINS:
        return FAULTY if FAULTY in arguments else apply_builtin(ctx, name, arguments, span)
    definition = definition_of(ctx, name, frame)
    place = frame.place(expr.function.span)
    if definition is None:
        return _not_a_function(ctx, name, frame, place)
    if len(arguments) != len(definition.parameters):
        wanted = len(definition.parameters)
        message = f"`{name}` takes {wanted or 'no'} argument{'s' if wanted != 1 else ''}, {len(arguments)} given"
        help = f"write `{_usage(definition) if wanted else name}`"
        ctx.faults.add("wrong-argument-count", message, span, help=help)
        return FAULTY
    return FAULTY if FAULTY in arguments else _write_out(ctx, definition, arguments, frame, span)


def _not_a_function(ctx: Context, name: str, frame: Frame, span: Span) -> Faulty:
    found = value_of(ctx, name, frame, span)
    if found is None:
        functions = (*ctx.defs, *BUILTINS, *ctx.std)
        if name not in known_names(ctx, frame):
            help = given_later(ctx, name, span) or did_you_mean(name, functions)
            ctx.faults.add("unknown-function", f"there is no function `{name}`", span, help=help)
        return FAULTY
    if isinstance(found, Faulty):
        return FAULTY  # told already
    if isinstance(found, WholeTensor):
        help = f"index it with brackets: `{name}[...]`"
    elif name in ctx.std and name in ctx.given_at:
        help = f"line {ctx.given_at[name].line} gives the name `{name}` and so hides the standard function: rename it"
    else:
        help = "write `*` for a product"
    ctx.faults.add("not-a-function", f"`{name}` is not a function here", span, help=help)
    return FAULTY


def _write_out(ctx: Context, definition: syntax.Def, arguments: tuple[Value, ...], frame: Frame, span: Span) -> Value:
    """The body of a function over its arguments."""
    name = definition.name.text
    is_std = ctx.std.get(name) is definition
    bound = {word.text: value for word, value in zip(definition.parameters, arguments, strict=True)}
    inner = Frame(bound, span, is_std)
    for condition in definition.requires:
        truth = evaluate(ctx, condition, inner)
        if isinstance(truth, Faulty):
            return FAULTY
        if isinstance(truth, Truth) and not truth.value:
            _refuse_argument(ctx, definition, condition, inner, span)
            return FAULTY
    return evaluate(ctx, definition.body, inner)


def _refuse_argument(ctx: Context, definition: syntax.Def, condition: SyntaxExpr, inner: Frame, call: Span) -> None:
    """Say which argument breaks a `require`, and by which value."""
    wanted = condition.span.source.text[condition.span.start : condition.span.end]
    parameter = next((name for name in _idents(condition) if name in inner.bound), "")
    value = inner.bound.get(parameter, FAULTY)
    shown = f"; `{parameter}` is {_constant_text(value)}" if parameter else ""
    message = f"`{definition.name.text}` needs {wanted}{shown}"
    ctx.faults.add("argument-out-of-range", message, _inside(value, call))


def _inside(value: Value, call: Span) -> Span:
    """The argument's own place, if it was written in the call."""
    place = call if isinstance(value, Faulty) else value.span
    is_there = place.source is call.source and call.start <= place.start and place.end <= call.end
    return place if is_there else call


def _constant_text(value: Value) -> str:
    return str(getattr(value, "value", "")) or describe(value)


def _idents(expr: SyntaxExpr) -> list[str]:
    if isinstance(expr, syntax.Ident):
        return [expr.name]
    return [name for operand in syntax.operands(expr) for name in _idents(operand)]


def _element(ctx: Context, expr: syntax.Element, frame: Frame, span: Span) -> Value:
    name, place = expr.tensor.text, frame.place(expr.tensor.span)
    values = [operators.plain(ctx, evaluate(ctx, index, frame)) for index in expr.indices]
    indices = tuple(index for index in values if index is not None)
    found = value_of(ctx, name, frame, place)
    tensor = found.tensor if isinstance(found, WholeTensor) else None
    if tensor is None and found is not None and is_expr(found) and name in ctx.tensors:
        tensor = ctx.tensors[name]  # a scalar: `read` says so
    if tensor is not None:
        return read(ctx, tensor, indices, span) if len(indices) == len(values) else FAULTY
    if found is None and definition_of(ctx, name, frame) is None and name not in BUILTINS:
        return unknown(ctx, name, frame, place)
    if not isinstance(found, Faulty):
        ctx.faults.add("not-a-tensor", f"`{name}` is not a tensor", place, help="only declared tensors are indexed")
    return FAULTY


def _prefix(ctx: Context, expr: syntax.Prefix, frame: Frame, span: Span) -> Value:
    if expr.op == "not":
        return operators.invert(ctx, evaluate(ctx, expr.operand, frame), span)
    if isinstance(expr.operand, syntax.Literal):  # so that the least integer can be written
        return operators.literal(ctx, -expr.operand.value, span)
    return operators.negate(ctx, evaluate(ctx, expr.operand, frame), span)


def _infix(ctx: Context, expr: syntax.Infix, frame: Frame, span: Span) -> Value:
    left = evaluate(ctx, expr.left, frame)
    if expr.op not in ("and", "or"):
        return operators.binary(ctx, expr.op, left, evaluate(ctx, expr.right, frame), span)
    if isinstance(left, Truth) and left.value == (expr.op == "or") and _tests_none(expr.left):
        return left  # `x is none or x > 0`: the right side has no value where x is none
    return operators.logic(ctx, expr.op, left, evaluate(ctx, expr.right, frame), span)


def _chain(ctx: Context, expr: syntax.Chain, frame: Frame, span: Span) -> Value:
    values = [evaluate(ctx, operand, frame) for operand in expr.operands]
    total: Value | None = None
    for op, left, right in zip(expr.ops, values, values[1:], strict=False):
        link = operators.comparison(ctx, op, left, right, span)
        total = link if total is None else operators.logic(ctx, "and", total, link, span)
    return total if total is not None else FAULTY


def _is_none(ctx: Context, expr: syntax.IsNone, frame: Frame, span: Span) -> Value:
    if not (isinstance(expr.operand, syntax.Ident) and expr.operand.name in frame.bound):
        message = "only an argument of a function can be `none`"
        ctx.faults.add("none-test-outside-function", message, span, help="test it inside `def`")
        return FAULTY
    return Truth(isinstance(frame.bound[expr.operand.name], NoValue) != expr.negated, span)


def _choice(ctx: Context, expr: syntax.Choice, frame: Frame, span: Span) -> Value:
    condition = evaluate(ctx, expr.condition, frame)
    if isinstance(condition, Truth) and _tests_none(expr.condition):
        return evaluate(ctx, expr.if_true if condition.value else expr.if_false, frame)
    if_true, if_false = evaluate(ctx, expr.if_true, frame), evaluate(ctx, expr.if_false, frame)
    return operators.choose(ctx, condition, if_true, if_false, span)


def _tests_none(expr: SyntaxExpr) -> bool:
    return isinstance(expr, syntax.IsNone) or any(_tests_none(operand) for operand in syntax.operands(expr))


def evaluate_expr(ctx: Context, expr: SyntaxExpr, is_size: bool = False) -> Expr | None:
    """A typed expression at the top of a file; None if it is faulty. is_size: one that rests on sizes and constants alone."""
    return operators.plain(ctx, evaluate(ctx, expr, Frame(is_size=is_size)))
