"""How the reference spells expressions: calls into `operations`, and plain operators where torch means the same."""

from collections.abc import Sequence

from attnspec.backends.expression import USER, Dialect
from attnspec.backends.source import Names

from attnspec.language.expr import FLOATS, Name, Number, Read, Search, Truth
from attnspec.language.spec import Spec

COMPARES = ("<", "<=", "==", "!=", ">=", ">")
FLOAT_FUNCTIONS = ("exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "floor")

SPELLINGS = {
    **{f"{kind} {op}": f"{{}} {op} {{}}" for kind in ("int", "float") for op in ("+", "-", "*", *COMPARES)},
    **{f"int {op}": f"{{}} {op} {{}}" for op in ("&", "|", "^")},
    **{f"float {name}": f"{name}({{}})" for name in FLOAT_FUNCTIONS},
    **{f"{kind} min": "minimum({}, {})" for kind in ("int", "float")},
    **{f"{kind} max": "maximum({}, {})" for kind in ("int", "float")},
    **{f"{kind} abs": "absolute({})" for kind in ("int", "float")},
    **{f"{kind} neg": "-{}" for kind in ("int", "float")},
    **{f"{kind} select": "choose({}, {}, {})" for kind in ("int", "float", "bool")},
    "int //": "floor_divide({}, {})",
    "int %": "remainder({}, {})",
    "int <<": "shift_left({}, {})",
    "int >>": "shift_right({}, {})",
    "float /": "{} / {}",
    "float //": "float_floor_divide({}, {})",
    "float %": "float_remainder({}, {})",
    "bool ==": "{} == {}",
    "bool !=": "{} != {}",
    "bool not": "invert({})",
    "bool and": "{} & {}",
    "bool or": "{} | {}",
    "int to float": "to_float({})",
}


def spell_name(node: Name) -> str:
    """Score and scale are parameters; the other given names are attributes of the tile's place."""
    return node.name if node.name in FLOATS else f"at.{node.name}"


def spell_number(node: Number) -> str:
    """A literal; infinity by name."""
    if node.value in (float("inf"), float("-inf")):
        return "INF" if node.value > 0 else "-INF"
    return repr(float(node.value) if node.kind == "float" else int(node.value))


def spell_truth(node: Truth) -> str:
    """A constant tensor: Python's own would not broadcast."""
    return "TRUE" if node.value else "FALSE"


def attribute_names(spec: Spec) -> dict[str, str]:
    """The emitted attribute of each declared tensor, no two alike."""
    names = Names()
    return {tensor.name: names.new(tensor.name, USER) for tensor in spec.tensors}


def dialect_of(spec: Spec) -> Dialect:
    """The reference's spelling of a spec's expressions; tensors are attributes of `t`."""
    attributes = attribute_names(spec)

    def spell_read(node: Read, indices: Sequence[str]) -> str:
        return f"read({', '.join((f't.{attributes[node.tensor]}', *indices))})"

    def spell_search(node: Search, operands: Sequence[str]) -> str:
        prefix = "".join(f"{operand}, " for operand in operands[:-1]).rstrip()
        return f'search(t.{attributes[node.tensor]}, ({prefix}), {operands[-1]}, "{node.side}")'

    return Dialect(SPELLINGS, spell_name, spell_number, spell_read, spell_search, spell_truth)
