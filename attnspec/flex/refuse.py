"""What a traced function may not do, and what to write instead."""

import ast
from typing import NoReturn

from attnspec.flex.place import Place, here
from attnspec.language.diagnostics import Diagnostic, SpecError


def refuse(name: str, message: str, help: str = "", note: str = "", place: Place | None = None) -> NoReturn:
    """Stop at the caller's operation, with the reason."""
    raise SpecError(Diagnostic(name, message, (place or here()).span, note, help))


def refuse_branch() -> NoReturn:
    """A truth value of something that differs from element to element was asked for."""
    place = here()
    what, help = _branch(place)
    message = f"{what} would be decided once, but its condition differs from element to element"
    refuse("python-control-flow", message, help, "differs from element to element", place)


def _branch(place: Place) -> tuple[str, str]:
    """What asks for the truth value, and what says the same of every element."""
    match place.node, place.above:
        case ast.Compare(ops=[_, _, *_]), _:
            return "a chained comparison", "write `(a <= b) & (b < c)`"
        case ast.Call(func=ast.Name(id="max")), _:
            return "`max`", "write `torch.maximum(a, b)`, or `torch.clamp(x, min=...)`"
        case ast.Call(func=ast.Name(id="min")), _:
            return "`min`", "write `torch.minimum(a, b)`, or `torch.clamp(x, max=...)`"
        case ast.Call(func=ast.Name(id="any" | "all" as word)), _:
            return f"`{word}`", "join conditions with `&` and `|`"
        case ast.Call(func=ast.Name(id="bool")), _:
            return "`bool`", "leave it out: a comparison is a condition already"
        case _, ast.IfExp():
            return "`A if C else B`", "write `torch.where(C, A, B)`"
        case _, ast.If():
            return "`if`", "compute both sides and choose with `torch.where(condition, a, b)`"
        case _, ast.While():
            return "`while`", "a loop over elements must have a fixed count: `for i in range(n)`"
        case (ast.BoolOp(op=ast.And()), _) | (_, ast.BoolOp(op=ast.And())):
            return "`and`", "write `a & b`, each side in brackets"
        case (ast.BoolOp(op=ast.Or()), _) | (_, ast.BoolOp(op=ast.Or())):
            return "`or`", "write `a | b`, each side in brackets"
        case (ast.UnaryOp(op=ast.Not()), _) | (_, ast.UnaryOp(op=ast.Not())):
            return "`not`", "write `~a`"
        case _, ast.Assert():
            return "`assert`", "check what you capture before the function is made"
        case _:
            return "a Python truth value", "write `torch.where(condition, a, b)`, `&`, `|` or `~`"


def refuse_value(what: str, help: str) -> NoReturn:
    """A Python number, or the like, of a traced value was asked for."""
    message = f"{what} needs one number, but this value differs from element to element"
    refuse("not-one-number", message, help)
