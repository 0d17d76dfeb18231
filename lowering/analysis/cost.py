"""What an expression costs an element, by unit.

Only what depends on both q and kv, or on the score, is counted: values of q alone are found once a row, values of kv alone
once a key of the tile, the rest once a head. So are the indices of tensors read by distance: a tile of 128 x 128 has 255
distances. A value used twice is computed once. A product that feeds one sum is fused with it.

| operation | MUFU | FMA | ALU | |
| --- | --- | --- | --- | --- |
| float + - *, int * | | 1 | | |
| int + -, bit operations, shifts, min, max, comparison, and, or, if-else | | | 1 | |
| float / | 1 | 1 | | reciprocal, product; by a constant: 1 FMA |
| int `//`, `%` by a constant | | 2 | 2 | product, high half, shifts; by a power of two: 1 ALU |
| int `//`, `%` by a value | 2 | 4 | 4 | by way of a float reciprocal |
| exp, log | 1 | 1 | | ex2 and lg2, with the factor |
| exp2, tanh, sqrt, rsqrt | 1 | | | tanh.approx |
| sigmoid | 1 | 2 | | 0.5 + 0.5 tanh(x / 2) |
| int to float | | | 1 | I2FP: 62 lanes a clock on an H200 |
| floor | 1 | | | F2I: 16 lanes a clock, as ex2 |
| abs, minus | | | | operand modifiers of floats; 1 ALU for ints |

Loads are from shared memory or registers' worth of global memory, by address: a row or head value is in a register (0), key and
element values come four at a time (1/4), distance and scattered values one at a time (1).
"""

from attnspec.lowering.analysis.addresses import address_of
from attnspec.lowering.analysis.analysed import ElementCost
from attnspec.lowering.analysis.linear import names_in

from attnspec.language.expr import Binary, Call, Compare, Convert, Expr, Logic, Number, Read, Select, Unary, children

Units = tuple[int, int, int]  # MUFU, FMA, ALU

FREE: Units = (0, 0, 0)
FMA: Units = (0, 1, 0)
ALU: Units = (0, 0, 1)
CALLS: dict[str, Units] = {
    "min": ALU,
    "max": ALU,
    "exp": (1, 1, 0),
    "log": (1, 1, 0),
    "exp2": (1, 0, 0),
    "tanh": (1, 0, 0),
    "sqrt": (1, 0, 0),
    "rsqrt": (1, 0, 0),
    "sigmoid": (1, 2, 0),
    "floor": (1, 0, 0),
}
LOADS = {"scalar": 0.0, "head": 0.0, "row": 0.0, "key": 0.25, "distance": 1.0, "element": 0.25, "scattered": 1.0}


def element_cost(*exprs: Expr | None) -> ElementCost:
    """Cost of values computed together: what they share is counted once."""
    users: dict[Expr, list[Expr]] = {}
    for expr in exprs:
        if expr is not None:
            visit(expr, users)
    moving = [at for at in users if "score" in names_in(at) or {"q", "kv"} <= names_in(at)]
    mufu, fma, alu = (sum(column) for column in zip(FREE, *(units(at, users) for at in moving), strict=True))
    loads = sum((LOADS[address_of(at.indices)[0]] for at in users if isinstance(at, Read)), 0.0)
    return ElementCost(mufu, fma, alu, loads)


def visit(at: Expr, users: dict[Expr, list[Expr]]) -> None:
    """Enter a node and its operands, each with the nodes that use it."""
    if at in users:
        return
    users[at] = []
    is_staged = isinstance(at, Read) and address_of(at.indices)[0] == "distance"
    for child in () if is_staged else children(at):
        visit(child, users)
        users[child].append(at)


def units(at: Expr, users: dict[Expr, list[Expr]]) -> Units:
    """Units of one operation, its operands given."""
    match at:
        case Binary(kind="float"):
            return float_units(at, users)
        case Binary():
            return int_units(at)
        case Compare() | Logic() | Select():
            return ALU
        case Convert():
            return ALU
        case Unary() | Call(function="abs"):
            return ALU if at.kind == "int" else FREE
        case Call(function=function):
            return CALLS[function]
    return FREE


def float_units(at: Binary, users: dict[Expr, list[Expr]]) -> Units:
    """Float arithmetic."""
    match at.op:
        case "/":
            return FMA if isinstance(at.right, Number) else (1, 1, 0)
        case "//" | "%":
            return (2, 2, 0)
        case "*" if len(users[at]) == 1 and is_fused(at, users[at][0]):
            return FREE
    return FMA


def is_fused(at: Binary, user: Expr) -> bool:
    """Does a sum take this product into its own multiply-add? It can take one."""
    if not isinstance(user, Binary) or user.kind != "float" or user.op not in ("+", "-"):
        return False
    left_is_product = isinstance(user.left, Binary) and user.left.op == "*"
    return at is user.left or not left_is_product


def int_units(at: Binary) -> Units:
    """Int arithmetic."""
    if at.op == "*":
        return FMA
    if at.op in ("//", "%"):
        if not isinstance(at.right, Number):
            return (2, 4, 4)
        value = int(at.right.value)
        return ALU if value > 0 and value & (value - 1) == 0 else (0, 2, 2)
    return ALU
