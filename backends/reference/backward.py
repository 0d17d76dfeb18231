"""The reference's backward module: probabilities from the LSE, gradients from the derived expressions, in f32."""

from attnspec.backends.emitted import Module
from attnspec.backends.expression import write_values
from attnspec.backends.reference.dialect import attribute_names, dialect_of
from attnspec.backends.reference.forward import write_masking
from attnspec.backends.reference.functions import (
    as_tuple,
    write_key_ranges,
    write_mask,
    write_scale,
    write_sink,
    write_tensor_names,
)
from attnspec.backends.reference.module import finish_module
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed, LearnedGradient

from attnspec.language.expr import names
from attnspec.language.spec import Spec

PURPOSE = [
    "attention backward in plain torch, written by attnspec.",
    "The same walk as the forward. Probabilities are computed again from the LSE. Products and sums are f32, the gradients of",
    "learned tensors f64; the order of every sum is fixed, so two runs give the same bits.",
]
START = """
t = name_tensors(tensors)
dq, dk, dv = (zeros(*array.shape) for array in (q, k, v))
learned = name_tensors([torch.zeros(value.shape, dtype=torch.float64) for value in tensors])
for segment in layout.segments:
    for rows in query_tiles(layout, segment, TILE_Q):
        scale = softmax_scale(rows, t)
        query, dout_rows = load_rows(q, rows), load_rows(dout, rows)
        row_lse, row_lost = load_row_values(lse, rows), load_row_values(lost, rows)
        # d(loss)/d(score) = probability * (dprobability - delta)
        delta = (load_rows(out, rows) * dout_rows).sum(-1, keepdim=True) - load_row_values(dlse, rows)
        dquery = zeros(*query.shape)
        for at in key_tiles(rows, TILE_KV, seen_keys(rows.wide, t), hidden_keys(rows.wide, t)):
            key, value = load_keys(k, at), load_keys(v, at)
            raw = query @ key.transpose(1, 2) * scale
"""
PROBABILITY = """
seen = score != -INF
probability = torch.where(seen, torch.exp(score - row_lse - row_lost), 0.0)
add_keys(dv, at, weigh(probability.transpose(1, 2), seen.transpose(1, 2), dout_rows))
dprobability = dout_rows @ value.transpose(1, 2)
dscore = torch.where(seen, probability * (dprobability - delta), 0.0)
"""
PRODUCTS = """
draw = torch.where(seen, dscore * slope, 0.0) * scale
dquery += weigh(draw, seen, key)
add_keys(dk, at, weigh(draw.transpose(1, 2), seen.transpose(1, 2), query))
"""
SINK = """
sink = to_float(sink)
dsink = -delta * torch.where(sink == -INF, 0.0, torch.exp(sink - row_lse - row_lost))
dsink = dsink[:, : rows.last_row - rows.first_row]
"""


def emit_backward(analysed: Analysed) -> Module:
    """`backward(q, k, v, out, lse, lost, dout, dlse, tensors, layout)` and the functions it needs."""
    spec, source = analysed.spec, Source()
    write_tensor_names(source, spec)
    source.blank(2)
    write_scale(source, spec)
    source.blank(2)
    write_slopes(source, analysed)
    source.blank(2)
    write_mask(source, spec)
    source.blank(2)
    write_sink(source, spec, [found.partial for found in analysed.derivative.sink])
    write_key_ranges(source, analysed)
    write_addresses(source, analysed)
    source.blank(2)
    write_loops(source, analysed)
    return finish_module("backward", spec, PURPOSE, source)


def slope_names(gradients: tuple[LearnedGradient, ...], prefix: str) -> list[str]:
    """A variable for the slope at each place where a learned tensor is read."""
    return [f"{prefix}_{number}" for number in range(1, len(gradients) + 1)]


def write_slopes(source: Source, analysed: Analysed) -> None:
    """`score_and_slopes`: the score, its slope by the score before, and by each read of a learned tensor."""
    derivative = analysed.derivative
    with source.block("def score_and_slopes(at, t, scale, score):"):
        source.docstring(
            "The score after the score statements, its slope by `score`, and by each read of a learned tensor.",
            "",
            *derivative.reason.split("; "),
        )
        wanted = [analysed.spec.score, derivative.score, *(found.partial for found in derivative.learned)]
        texts = write_values(source, dialect_of(analysed.spec), wanted)
        source.line(f"return {', '.join(texts)}")


def write_addresses(source: Source, analysed: Analysed) -> None:
    """`add_learned` and `add_sink`: which element of a learned tensor each slope is added to."""
    derivative = analysed.derivative
    for name, gradients in (("add_learned", derivative.learned), ("add_sink", derivative.sink)):
        if gradients:
            source.blank(2)
            write_adds(source, analysed.spec, name, gradients)


def write_adds(source: Source, spec: Spec, name: str, gradients: tuple[LearnedGradient, ...]) -> None:
    """One function that adds slopes at the addresses that were read."""
    slopes = slope_names(gradients, "slope")
    attributes = attribute_names(spec)
    with source.block(f"def {name}(learned, at, t, scale, score, {', '.join(slopes)}):"):
        source.docstring("Add gradients of the reads to the elements read.")
        texts = iter(write_values(source, dialect_of(spec), [index for found in gradients for index in found.indices]))
        for found, slope in zip(gradients, slopes, strict=True):
            where = as_tuple([next(texts) for _ in found.indices])
            source.line(f"add_at(learned.{attributes[found.tensor]}, {where}, {slope})")


def write_loops(source: Source, analysed: Analysed) -> None:
    """The tile loops."""
    with source.block("def backward(q, k, v, out, lse, lost, dout, dlse, tensors, layout):"):
        source.docstring(
            "dq, dk, dv (f32, shaped as q, k, v) and a list of gradients (f64), one a declared tensor, 0 where not learned.",
            "",
            "out, lse, lost: the forward's, f32. lse, lost, dlse: (batch, heads, len_q), or (heads, total) packed.",
        )
        source.text(START)
        source.depth += 3
        write_gradients(source, analysed)
        source.depth -= 1
        source.line("store_rows(dq, rows, dquery)")
        write_sink_gradient(source, analysed)
        source.depth -= 2
        source.line("return dq, dk, dv, list(vars(learned).values())")


def write_gradients(source: Source, analysed: Analysed) -> None:
    """The body of the loop over key tiles."""
    learned = slope_names(analysed.derivative.learned, "slope")
    source.line(f"{', '.join(['score', 'slope', *learned])} = score_and_slopes(at, t, scale, raw)")
    if "score" not in names(analysed.spec.score):
        source.line("score = spread(score, raw)")
    write_masking(source, analysed.spec)
    source.text(PROBABILITY)
    if learned:
        terms = ", ".join(f"torch.where(seen, dscore * {slope}, 0.0)" for slope in learned)
        source.line(f"add_learned(learned, at, t, scale, raw, {terms})")
    source.text(PRODUCTS)


def write_sink_gradient(source: Source, analysed: Analysed) -> None:
    """The sink's share of a query tile's gradients."""
    slopes = slope_names(analysed.derivative.sink, "slope")
    if not slopes:
        return
    source.line(f"{', '.join(['sink', *slopes])} = sink_score(rows, t, scale)")
    source.text(SINK)
    terms = ", ".join(f"dsink * {slope}" for slope in slopes)
    source.line(f"add_sink(learned, rows, t, scale, None, {terms})")
