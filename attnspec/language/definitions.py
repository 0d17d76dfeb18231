"""`def`: names are checked where a function is written, kinds where it is called."""

from attnspec.language import syntax
from attnspec.language.context import Context, Frame
from attnspec.language.functions import BUILTINS
from attnspec.language.names import definition_of, may_be_given, unknown, value_of
from attnspec.language.values import FAULTY


def give_def(ctx: Context, statement: syntax.Def) -> None:
    """`def NAME(ARGUMENTS) = EXPR`: kinds are checked where it is called, names here. A faulty one makes its name faulty."""
    name, before = statement.name.text, len(ctx.faults.found)
    _check_parameters(ctx, statement)
    if name in _called(statement):
        ctx.faults.add("recursive-def", f"`{name}` calls itself", statement.name.span)
    elif len(ctx.faults.found) == before and may_be_given(ctx, statement.name):
        _check_names(ctx, statement)
    if len(ctx.faults.found) == before:
        ctx.defs[name] = statement
    else:
        ctx.values[name] = FAULTY


def _check_parameters(ctx: Context, statement: syntax.Def) -> None:
    names = [word.text for word in statement.parameters]
    for index, word in enumerate(statement.parameters):
        if word.text in names[:index]:
            ctx.faults.add("name-taken", f"`{word.text}` is an argument twice", word.span)
        else:
            _may_be_parameter(ctx, word)


def _may_be_parameter(ctx: Context, word: syntax.Word) -> None:
    taken = ctx.given_at.get(word.text)
    may_be_given(ctx, word)
    if taken is None:
        ctx.given_at.pop(word.text, None)  # an argument's name is free again after the function


def _parts(statement: syntax.Def) -> list[syntax.SyntaxExpr]:
    """Every sub-expression of a function."""
    found: list[syntax.SyntaxExpr] = [*statement.requires, statement.body]
    for at in found:
        found.extend(syntax.operands(at))
    return found


def _called(statement: syntax.Def) -> set[str]:
    names = {at.function.text for at in _parts(statement) if isinstance(at, syntax.Apply)}
    return names | {at.name for at in _parts(statement) if isinstance(at, syntax.Ident)}


def _check_names(ctx: Context, statement: syntax.Def) -> None:
    """A name that is nothing is a fault of the function even if nothing calls it."""
    frame = Frame(dict.fromkeys((word.text for word in statement.parameters), FAULTY))
    for at in _parts(statement):
        word = at.tensor if isinstance(at, syntax.Element) else at.function if isinstance(at, syntax.Apply) else None
        if isinstance(at, syntax.Ident):
            word = syntax.Word(at.name, at.span)
        if word is None or word.text in BUILTINS or definition_of(ctx, word.text, frame) is not None:
            continue
        if value_of(ctx, word.text, frame, word.span) is None:
            unknown(ctx, word.text, frame, word.span)
