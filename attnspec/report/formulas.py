"""Expressions as MathML, which browsers draw themselves."""

from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

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
from attnspec.language.show_expr import AND, ATOM, CHOICE, COMPARE, LEVELS, NOT, OR, QPOS, SIGN
from attnspec.report.elements import element

SIGNS = {"*": "·", "-": "\N{MINUS SIGN}", "<=": "\N{LESS-THAN OR EQUAL TO}", ">=": "\N{GREATER-THAN OR EQUAL TO}",
         "!=": "\N{NOT EQUAL TO}", "==": "=", "%": "mod", "and": "\N{LOGICAL AND}", "or": "\N{LOGICAL OR}",
         "&": "&", "|": "|", "^": "xor"}  # fmt: skip
LETTERS = {"score": "s", "scale": "σ"}  # as papers write them; the page says so
SIZES = {"len_q": ("L", "q"), "len_kv": ("L", "kv"), "heads": ("H", ""), "kv_heads": ("H", "kv"), "batch": ("B", "")}


def formula(left: str, expr: Expr) -> Element:
    """`left = expr` on a line of its own."""
    return element("math", row(word(left), sign("="), Typesetter().set(expr)), display="block")


def row(*children: Element) -> Element:
    return element("mrow", *children)


def sign(text: str) -> Element:
    return element("mo", text)


def word(text: str) -> Element:
    """A name: one letter stands upright or slanted as the browser has it, more are a word."""
    return element("mi", text, mathvariant="normal" if len(text) > 1 else None)


@dataclass(frozen=True)
class Typesetter:
    """Sets expressions; brackets as `Printer` has them, but for what a fraction or a root already holds together."""

    known: dict[str, Element] = field(default_factory=dict)

    def set(self, expr: Expr, level: int = CHOICE) -> Element:
        """The expression at a place that holds operators of a level or tighter ones."""
        found, own = self.parts(expr)
        return row(sign("("), found, sign(")")) if own < level else found

    def parts(self, expr: Expr) -> tuple[Element, int]:
        """Element and level of a node."""
        if expr == QPOS:
            return word("qpos"), ATOM
        match expr:
            case Number():
                return number(expr)
            case Truth():
                return word("true" if expr.value else "false"), ATOM
            case Name():
                return name(expr.name), ATOM
            case Read():
                return self.indexed(expr.tensor, expr.indices), ATOM
            case Search():
                return self.called(f"search_{expr.side}", (*expr.prefix, expr.value)), ATOM
            case Unary(op="not"):
                return row(sign("¬"), self.set(expr.operand, NOT + 1)), NOT
            case Unary():
                return row(sign(SIGNS["-"]), self.set(expr.operand, SIGN)), SIGN
            case Convert():
                return self.parts(expr.operand)
            case Call():
                return self.call(expr)
            case _:
                return self.operator(expr)

    def operator(self, expr: Binary | Compare | Logic | Select) -> tuple[Element, int]:
        match expr:
            case Binary(op="/"):
                return element("mfrac", self.set(expr.left), self.set(expr.right)), ATOM
            case Binary(op="//"):
                fraction = element("mfrac", self.set(expr.left), self.set(expr.right))
                return row(sign("\N{LEFT FLOOR}"), fraction, sign("\N{RIGHT FLOOR}")), ATOM
            case Binary():
                level = LEVELS[expr.op]
                return self.pair(expr.left, expr.op, expr.right, (level, level + 1)), level
            case Compare():
                return self.pair(expr.left, expr.op, expr.right, (COMPARE + 1, COMPARE + 1)), COMPARE
            case Logic():
                level = AND if expr.op == "and" else OR
                return self.pair(expr.left, expr.op, expr.right, (level, level + 1)), level
            case Select():
                return self.cases(expr), ATOM

    def pair(self, left: Expr, operator: str, right: Expr, levels: tuple[int, int]) -> Element:
        return row(self.set(left, levels[0]), sign(SIGNS.get(operator, operator)), self.set(right, levels[1]))

    def cases(self, expr: Select) -> Element:
        """A line for each case; an `else` that is a choice again goes on with its lines.

        What holds them together is a border, as tall as they are: browsers stretch a brace by a font for mathematics alone.
        """
        lines: list[Element] = []
        rest: Expr = expr
        while isinstance(rest, Select):
            lines.append(case(self.set(rest.if_true), row(element("mtext", "if\N{NO-BREAK SPACE}"), self.set(rest.condition))))
            rest = rest.if_false
        lines.append(case(self.set(rest), element("mtext", "else")))
        return element("mtable", *lines, columnalign="left", class_="cases")

    def call(self, expr: Call) -> tuple[Element, int]:
        first = expr.arguments[0]
        match expr.function:
            case "sqrt":
                return element("msqrt", self.set(first)), ATOM
            case "rsqrt":
                return element("mfrac", element("mn", "1"), element("msqrt", self.set(first))), ATOM
            case "abs":
                return row(sign("|"), self.set(first), sign("|")), ATOM
            case "floor":
                return row(sign("\N{LEFT FLOOR}"), self.set(first), sign("\N{RIGHT FLOOR}")), ATOM
            case "exp" | "exp2":
                base = word("e") if expr.function == "exp" else element("mn", "2")
                return element("msup", base, self.set(first)), ATOM
        return self.called("ln" if expr.function == "log" else expr.function, expr.arguments), ATOM

    def called(self, function: str, arguments: tuple[Expr, ...]) -> Element:
        inner: list[Element] = []
        for at, argument in enumerate(arguments):
            inner += ([sign(",")] if at else []) + [self.set(argument)]
        return row(word(function), sign("("), *inner, sign(")"))

    def indexed(self, tensor: str, indices: tuple[Expr, ...]) -> Element:
        """A tensor with its indices below."""
        if not indices:
            return word(tensor)
        inner: list[Element] = []
        for at, index in enumerate(indices):
            inner += ([sign(",")] if at else []) + [self.set(index)]
        return element("msub", word(tensor), row(*inner))


def case(value: Element, condition: Element) -> Element:
    return element("mtr", element("mtd", value), element("mtd", condition))


def name(given: str) -> Element:
    """A given name by the letter that papers use."""
    if given in SIZES:
        letter, index = SIZES[given]
        return element("msub", word(letter), word(index)) if index else word(letter)
    return word(LETTERS.get(given, given))


def number(at: Number) -> tuple[Element, int]:
    """A constant by its name, if it has one; else as few digits as say the same."""
    if at.label:
        return word(at.label), ATOM
    value = at.value
    if value in (float("inf"), -float("inf")):
        return (word("\N{INFINITY}"), ATOM) if value > 0 else (row(sign(SIGNS["-"]), word("\N{INFINITY}")), SIGN)
    written = element("mn", f"{abs(value):.7g}")
    return (written, ATOM) if value >= 0 else (row(sign(SIGNS["-"]), written), SIGN)
