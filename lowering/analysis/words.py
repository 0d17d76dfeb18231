"""Expressions in words, for the reasons that analyses give."""

from attnspec.language.expr import (
    Binary,
    Call,
    Compare,
    Convert,
    Expr,
    Logic,
    Name,
    Number,
    Read,
    Search,
    Select,
    Truth,
    Unary,
)

LONGEST = 72  # characters of an expression shown in a reason


def words(expr: Expr) -> str:
    """The words of the file that an expression came from; written out where it came from no file."""
    span = expr.span
    text = " ".join(span.source.text[span.start : span.end].split()) or written(expr, LONGEST)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def written(expr: Expr, room: int) -> str:
    """The expression in the language, every operation in parentheses; below `room` characters only `...`."""
    if room <= 0:
        return "..."

    def inner(at: Expr) -> str:
        bare = at.operand if isinstance(at, Convert) else at
        text = written(bare, room // 2)
        return f"({text})" if isinstance(bare, Binary | Compare | Logic | Select) else text

    match expr:
        case Number() | Truth():
            return str(expr.value)
        case Name():
            return expr.name
        case Read():
            return expr.tensor + (f"[{', '.join(written(at, room // 2) for at in expr.indices)}]" if expr.indices else "")
        case Search():
            inside = ", ".join(written(at, room // 2) for at in (*expr.prefix, expr.value))
            return f"search_{expr.side}({expr.tensor}, {inside})"
        case Unary():
            return ("-" if expr.op == "-" else "not ") + inner(expr.operand)
        case Binary() | Compare() | Logic():
            return f"{inner(expr.left)} {expr.op} {inner(expr.right)}"
        case Select():
            return f"{inner(expr.if_true)} if {inner(expr.condition)} else {inner(expr.if_false)}"
        case Call():
            return f"{expr.function}({', '.join(written(at, room // 2) for at in expr.arguments)})"
        case Convert():
            return written(expr.operand, room)
