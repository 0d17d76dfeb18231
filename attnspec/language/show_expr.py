"""Typed expressions as text of the language, with no bracket that is not needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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

CHOICE, OR, AND, NOT, COMPARE = 0, 1, 2, 3, 4
SIGN, ATOM = 11, 12
LEVELS = {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10}
QPOS = Binary("+", Name("q", "int"), Binary("-", Name("len_kv", "int"), Name("len_q", "int"), "int"), "int")


@dataclass(frozen=True)
class Printer:
    """constants: values of the names that a number may be shown as. lets: the names of whole expressions."""

    constants: Mapping[str, int | float] = field(default_factory=dict)
    lets: Mapping[Expr, str] = field(default_factory=dict)

    def show(self, expr: Expr, level: int = CHOICE, as_float: bool = False) -> str:
        """The text at a place that holds operators of a level or tighter ones.

        as_float: the place turns an int into a float by itself, so that a conversion need not be written.
        """
        if as_float and self._is_soft(expr):
            return self._soft(expr, level)
        if expr in self.lets:
            return self.lets[expr]
        text, own = self._parts(expr)
        return f"({text})" if own < level else text

    def define(self, expr: Expr) -> str:
        """The text of an expression that has a name itself."""
        return self._parts(expr)[0]

    def _is_soft(self, expr: Expr) -> bool:
        """Whether an expression is an int that its place made a float, and is written as the int."""
        if isinstance(expr, Convert):
            return expr not in self.lets
        return isinstance(expr, Number) and expr.kind == "float" and isinstance(self._constant(expr), int)

    def _soft(self, expr: Expr, level: int) -> str:
        return self.show(expr.operand, level) if isinstance(expr, Convert) else str(expr.label)  # type: ignore[union-attr]

    def _constant(self, at: Number) -> int | float | None:
        """The value of the constant that a number was written as, if it still has that value."""
        value = self.constants.get(at.label or "")
        return value if value is not None and value == at.value else None

    def _pair(self, left: Expr, right: Expr, kind: str, levels: tuple[int, int]) -> tuple[str, str]:
        """Two operands of one kind: of two ints made floats, one says so."""
        if kind != "float":
            return self.show(left, levels[0]), self.show(right, levels[1])
        if self._is_soft(left) and self._is_soft(right):
            is_first = isinstance(left, Number) or not isinstance(right, Number)
            return self.show(left, levels[0], not is_first), self.show(right, levels[1], is_first)
        return self.show(left, levels[0], True), self.show(right, levels[1], True)

    def _parts(self, expr: Expr) -> tuple[str, int]:
        """Text and level of a node."""
        if expr == QPOS:
            return "qpos", ATOM
        match expr:
            case Number():
                return self._number(expr)
            case Truth():
                return ("true" if expr.value else "false"), ATOM
            case Name():
                return expr.name, ATOM
            case Read():
                return self._element(expr.tensor, expr.indices), ATOM
            case Search():
                place = f"{self._element(expr.tensor, expr.prefix)}, {self.show(expr.value)}"
                return f"search_{expr.side}({place})", ATOM
            case Unary(op="not"):
                return f"not {self.show(expr.operand, NOT)}", NOT
            case Unary():
                return f"-{self.show(expr.operand, SIGN)}", SIGN
            case Convert():
                return f"float({self.show(expr.operand)})", ATOM
            case Call():
                return self._call(expr), ATOM
            case _:
                return self._operator(expr)

    def _operator(self, expr: Binary | Compare | Logic | Select) -> tuple[str, int]:
        match expr:
            case Binary():
                level = LEVELS[expr.op]
                if expr.op == "/":
                    left, right = self.show(expr.left, level, True), self.show(expr.right, level + 1, True)
                else:
                    left, right = self._pair(expr.left, expr.right, expr.kind, (level, level + 1))
                return f"{left} {expr.op} {right}", level
            case Compare():
                left, right = self._pair(expr.left, expr.right, expr.left.kind, (COMPARE + 1, COMPARE + 1))
                return f"{left} {expr.op} {right}", COMPARE
            case Logic():
                level = AND if expr.op == "and" else OR
                return f"{self.show(expr.left, level)} {expr.op} {self.show(expr.right, level + 1)}", level
            case Select():
                if_true, if_false = self._pair(expr.if_true, expr.if_false, expr.kind, (OR, CHOICE))
                return f"{if_true} if {self.show(expr.condition, OR)} else {if_false}", CHOICE

    def _number(self, at: Number) -> tuple[str, int]:
        constant = self._constant(at)
        if constant is not None and isinstance(constant, float) == (at.kind == "float"):
            return str(at.label), ATOM
        text = repr(float(at.value)) if at.kind == "float" else str(at.value)
        return text, SIGN if text.startswith("-") else ATOM

    def _element(self, tensor: str, indices: tuple[Expr, ...]) -> str:
        return f"{tensor}[{', '.join(map(self.show, indices))}]" if indices else tensor

    def _call(self, expr: Call) -> str:
        if expr.function in ("min", "max"):
            first, second = expr.arguments
            left, right = self._pair(first, second, expr.kind, (CHOICE, CHOICE))
            return f"{expr.function}({left}, {right})"
        (only,) = expr.arguments
        return f"{expr.function}({self.show(only, CHOICE, expr.function != 'abs')})"


def show_expr(expr: Expr) -> str:
    """An expression alone, every number as a number."""
    return Printer().show(expr)
