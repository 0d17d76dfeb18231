"""The small functions of an emitted reference module: tensors by name, scale, score, mask, sink and the key ranges."""

from collections.abc import Sequence

from attnspec.backends.expression import write_values
from attnspec.backends.reference.dialect import attribute_names, dialect_of
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed, Range

from attnspec.language.expr import Expr
from attnspec.language.spec import Spec


def write_tensor_names(source: Source, spec: Spec) -> None:
    """`name_tensors(values)`: attributes for values in the order of declaration."""
    with source.block("def name_tensors(values):"):
        source.docstring("Declared tensors by name, from a value each in the order of the file.")
        quoted = [f'"{name}"' for name in attribute_names(spec).values()]
        source.line(f"names = {as_tuple(quoted)}")
        source.line("return SimpleNamespace(**dict(zip(names, values, strict=True)))")


def write_function(
    source: Source, spec: Spec, name: str, parameters: str, purpose: Sequence[str], results: Sequence[Expr]
) -> None:
    """One function of `(at, t, ...)` that returns the expressions' values: one value, or a tuple."""
    with source.block(f"def {name}({parameters}):"):
        source.docstring(*purpose)
        texts = write_values(source, dialect_of(spec), results)
        source.line(f"return {', '.join(texts)}")


def write_scale(source: Source, spec: Spec) -> None:
    """`softmax_scale`."""
    write_function(source, spec, "softmax_scale", "at, t", ["What q . k is multiplied by."], [spec.scale])


def write_mask(source: Source, spec: Spec) -> None:
    """`is_visible`, if there is a mask."""
    if spec.mask is not None:
        purpose = ["True where the query sees the key; broadcasts to (heads, TILE_Q, TILE_KV)."]
        write_function(source, spec, "is_visible", "at, t, scale", purpose, [spec.mask])


def write_sink(source: Source, spec: Spec, results: Sequence[Expr]) -> None:
    """`sink_score`, if there is a sink; more results follow it (its slopes)."""
    if spec.sink is not None:
        purpose = ["The logit that joins each row's denominator, (heads, 1, 1) or one number."]
        write_function(source, spec, "sink_score", "at, t, scale", purpose, [spec.sink, *results])


def write_key_ranges(source: Source, analysed: Analysed) -> None:
    """`seen_keys` and `hidden_keys` of a query tile."""
    walk = analysed.keys
    seen = "Ranges [first, last) of keys that some row of the query tile sees."
    hidden = "Ranges [first, last) that hold every key some row does not see: their tiles need the mask."
    write_ranges(source, analysed.spec, "seen_keys", seen, walk.seen)
    write_ranges(source, analysed.spec, "hidden_keys", hidden, walk.hidden)


def write_ranges(source: Source, spec: Spec, name: str, purpose: str, ranges: Sequence[Range]) -> None:
    """One function that returns a list of pairs."""
    source.blank(2)
    with source.block(f"def {name}(at, t):"):
        source.docstring(purpose)
        for number, found in enumerate(ranges, 1):
            source.comment(f"{number}: {found.reason}")
        edges = write_values(source, dialect_of(spec), [edge for found in ranges for edge in (found.first, found.last)])
        pairs = [f"({first}, {last})" for first, last in zip(edges[::2], edges[1::2])]
        if len(pairs) < 2:
            source.line(f"return [{''.join(pairs)}]")
            return
        with source.block("return ["):
            for pair in pairs:
                source.line(f"{pair},")
        source.line("]")


def as_tuple(texts: Sequence[str]) -> str:
    """A tuple of expressions."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
