"""How kernels spell expressions: operators where the DSL's mean the same, calls into the kernel library elsewhere."""

from collections.abc import Sequence

from attnspec.backends.expression import USER, Dialect
from attnspec.backends.source import Names
from attnspec.lowering.analysis.sorted_masks import label_of, waits
from attnspec.lowering.analysis.staging import staged_number
from attnspec.lowering.indices import INSIDE, WITHIN

from attnspec.language.expr import SIZES, Name, Number, Read, Search
from attnspec.language.spec import Spec

COMPARES = ("<", "<=", "==", "!=", ">=", ">")
FLOAT_FUNCTIONS = ("exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "floor")
ARITHMETIC = (
    *(
        "divide",
        "remainder",
        "float_floor_divide",
        "float_remainder",
        "minimum",
        "maximum",
        "absolute",
        "choose",
        "invert",
        "both",
    ),
    *("either", "to_float", "read", INSIDE, WITHIN, *FLOAT_FUNCTIONS),
    *("all_keys", "keys_at", "keys_below", "keys_where"),
)
LIBRARY = {"arithmetic": ARITHMETIC, "seeking": ("search", "search_within")}  # by module
ROW = "row"  # names `row0`, `row1`, ... stand for values computed once a row
KEY = "key"  # and these for values computed once a key
PARAMETERS = ("score", "q", "kv", "distance")

SPELLINGS = {
    **{f"{kind} {op}": f"{{}} {op} {{}}" for kind in ("int", "float") for op in ("+", "-", "*", *COMPARES)},
    **{f"int {op}": f"{{}} {op} {{}}" for op in ("&", "|", "^", "<<", ">>", "//")},
    **{f"float {name}": f"{name}({{}})" for name in FLOAT_FUNCTIONS},
    **{f"{kind} min": "minimum({}, {})" for kind in ("int", "float")},
    **{f"{kind} max": "maximum({}, {})" for kind in ("int", "float")},
    **{f"{kind} abs": "absolute({})" for kind in ("int", "float")},
    **{f"{kind} neg": "-{}" for kind in ("int", "float")},
    **{f"{kind} select": "choose({}, {}, {})" for kind in ("int", "float", "bool")},
    "int %": "remainder({}, {})",
    f"int {INSIDE}": f"{INSIDE}({{}})",
    f"int {WITHIN}": f"{WITHIN}({{}}, {{}})",
    "float /": "divide({}, {})",
    "float //": "float_floor_divide({}, {})",
    "float %": "float_remainder({}, {})",
    "bool not": "invert({})",
    "bool and": "both({}, {})",
    "bool or": "either({}, {})",
    "int to float": "to_float({})",
}


def spell_name(node: Name) -> str:
    """Score and positions are parameters, sizes and the tile's place attributes of `at`, row values elements of `row`."""
    if node.name in PARAMETERS:
        return node.name
    for shared in (ROW, KEY):
        if node.name.startswith(shared):
            return f"{shared}[{node.name.removeprefix(shared)}]"
    if node.name == "scale":
        return "softmax_scale(at)"
    return f"at.sizes.{node.name}" if node.name in SIZES else f"at.{node.name}"


def spell_number(node: Number) -> str:
    """A literal; infinity by way of the DSL's type."""
    if node.value in (float("inf"), float("-inf")):
        return "Float32.inf" if node.value > 0 else "-Float32.inf"
    return repr(float(node.value) if node.kind == "float" else int(node.value))


def attribute_names(spec: Spec) -> dict[str, str]:
    """The emitted name of each declared tensor, no two alike."""
    names = Names()
    return {tensor.name: names.new(tensor.name, USER) for tensor in spec.tensors}


def dialect_of(spec: Spec) -> Dialect:
    """The spelling of a spec's expressions; its tensors are attributes of `at.tensors`."""
    attributes = attribute_names(spec)

    def spell_read(node: Read, indices: Sequence[str]) -> str:
        number = staged_number(node)
        if number is not None:
            return f"staged.value({number})"
        places = indices or ("0",)
        return f"read({', '.join((f'at.tensors.{attributes[node.tensor]}', *places))})"

    def spell_search(node: Search, operands: Sequence[str]) -> str:
        count = len(node.prefix)
        prefix = "".join(f"{operand}, " for operand in operands[:count])
        row = f"at.tensors.{attributes[node.tensor]}, ({prefix})"
        if node.within:
            low, place, high, other = operands[count + 1 :]
            return f"search_within({row}, {operands[count]}, {node.side!r}, ({low}, {place}), ({high}, {other}))"
        how = f"{node.side!r}, {label_of(node)!r}{', waits=True' if waits(node) else ''}"
        return f"search({row}, {operands[count]}, {how})"

    return Dialect(SPELLINGS, spell_name, spell_number, spell_read, spell_search)
