"""A spec as the functions that FlexAttention takes: `score_mod` and `mask_mod`; and its sink, which has no argument there."""

from collections.abc import Sequence

from attnspec.backends.emitted import Module
from attnspec.backends.expression import USER, Dialect, write_values
from attnspec.backends.source import Names, Source
from attnspec.language.expr import Expr, Name, Number, Read, Search, Truth, names
from attnspec.language.spec import Spec

COMPARES = ("<", "<=", "==", "!=", ">=", ">")
FLOAT_FUNCTIONS = ("exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "floor")
OPERATIONS = "attnspec.bench.flex_operations"
SIZES = "batch, heads, kv_heads, len_q, len_kv"
SCORE = Name("score", "float")

SPELLINGS = {
    **{f"{kind} {op}": f"{{}} {op} {{}}" for kind in ("int", "float") for op in ("+", "-", "*", "%", *COMPARES)},
    **{f"int {op}": f"{{}} {op} {{}}" for op in ("&", "|", "^", "<<", ">>", "//")},
    **{f"float {name}": f"F.{name}({{}})" for name in FLOAT_FUNCTIONS},
    **{f"{kind} min": "F.minimum({}, {})" for kind in ("int", "float")},
    **{f"{kind} max": "F.maximum({}, {})" for kind in ("int", "float")},
    **{f"{kind} abs": "F.absolute({})" for kind in ("int", "float")},
    **{f"{kind} neg": "-{}" for kind in ("int", "float")},
    **{f"{kind} select": "F.choose({}, {}, {})" for kind in ("int", "float", "bool")},
    "float /": "{} / {}",
    "float //": "F.float_floor_divide({}, {})",
    "bool ==": "{} == {}",
    "bool !=": "{} != {}",
    "bool not": "F.invert({})",
    "bool and": "{} & {}",
    "bool or": "{} | {}",
    "int to float": "F.to_float({})",
}


def emit_flex(spec: Spec) -> Module:
    """`make(tensors, batch, heads, kv_heads, len_q, len_kv) -> (score_mod, mask_mod, sink)`, None for what the spec lacks.

    tensors: by declaration, in order. `score_mod` and `mask_mod` take (b, h, q, kv) as torch's do. sink: (heads,) logits.
    SCALE is what `flex_attention` is given; a scale that is no constant is multiplied in `score_mod`, and SCALE is 1.
    """
    source = Source()
    source.docstring(f"{spec.name}: functions for torch.nn.attention.flex_attention, written by attnspec.")
    source.blank()
    source.line("import torch")
    source.blank()
    source.line(f"import {OPERATIONS} as F")
    source.blank()
    source.line(f"SCALE = {spell_number(spec.scale) if isinstance(spec.scale, Number) else 1.0}")
    source.blank(2)
    attributes = attribute_names(spec)
    with source.block(f"def make(tensors, {SIZES}):"):
        source.docstring("score_mod, mask_mod and the sink's logits, over tensors in the order of the file.")
        if attributes:
            source.line(f"({', '.join(attributes.values())},) = tensors")
        source.line("score_mod = mask_mod = sink = None")
        if spec.score != SCORE or not isinstance(spec.scale, Number):
            write_score(source, spec)
        if spec.mask is not None:
            write(source, spec, "mask_mod(b, h, q, kv)", spec.mask)
        if spec.sink is not None:
            write_sink(source, spec)
        source.blank()
        source.line("return score_mod, mask_mod, sink")
    return Module("flex", str(source))


def write_score(source: Source, spec: Spec) -> None:
    """`score_mod`: the scale, then the score statements."""
    source.blank()
    with source.block("def score_mod(score, b, h, q, kv):"):
        write_group(source, spec.score, spec.scale)
        source.line(f"scale = {write_values(source, dialect_of(spec), [spec.scale])[0]}")
        if not isinstance(spec.scale, Number):
            source.line("score = score * scale")
        source.line(f"return {write_values(source, dialect_of(spec), [spec.score])[0]}")


def write(source: Source, spec: Spec, signature: str, expr: Expr) -> None:
    """A function of one expression; one that is a plain bool is made a tensor."""
    source.blank()
    with source.block(f"def {signature}:"):
        write_group(source, expr)
        value = write_values(source, dialect_of(spec), [expr])[0]
        source.line(f"return F.choose({value}, q == q, q != q)")


def write_sink(source: Source, spec: Spec) -> None:
    """The sink's logits, of all heads at once."""
    assert spec.sink is not None
    source.blank()
    device = f"{next(iter(attribute_names(spec).values()))}.device" if spec.tensors else "None"
    source.line(f"h = torch.arange(heads, device={device})")
    write_group(source, spec.sink)
    source.line(f"sink = {write_values(source, dialect_of(spec), [spec.sink])[0]} + torch.zeros(heads, device={device})")


def write_group(source: Source, *exprs: Expr) -> None:
    """The key/value head, where it is used."""
    if any("hkv" in names(expr) for expr in exprs):
        source.line("hkv = h // (heads // kv_heads)")


def attribute_names(spec: Spec) -> dict[str, str]:
    """The emitted name of each declared tensor, no two alike."""
    found = Names()
    return {tensor.name: found.new(f"t_{tensor.name}", USER) for tensor in spec.tensors}


def dialect_of(spec: Spec) -> Dialect:
    """How expressions are spelled."""
    attributes = attribute_names(spec)
    floats = {tensor.name for tensor in spec.tensors if tensor.dtype in ("bf16", "fp16")}

    def spell_read(node: Read, indices: Sequence[str]) -> str:
        read = f"{attributes[node.tensor]}[{', '.join(indices)}]" if indices else attributes[node.tensor]
        return f"F.to_float({read})" if node.tensor in floats else read

    def spell_search(node: Search, operands: Sequence[str]) -> str:
        raise TypeError(f"a search of {node.tensor}: only tile walks hold one, given {operands}")

    return Dialect(SPELLINGS, lambda node: node.name, spell_number, spell_read, spell_search, spell_truth)


def spell_number(node: Number) -> str:
    """A literal; infinity as Python writes it."""
    if node.value in (float("inf"), float("-inf")):
        return 'float("inf")' if node.value > 0 else '-float("inf")'
    return repr(float(node.value) if node.kind == "float" else int(node.value))


def spell_truth(node: Truth) -> str:
    """True or False."""
    return repr(node.value)
