"""The reference's forward module: tiled attention with an online softmax, in f32."""

from attnspec.backends.emitted import Module
from attnspec.backends.reference.functions import (
    write_function,
    write_key_ranges,
    write_mask,
    write_scale,
    write_sink,
    write_tensor_names,
)
from attnspec.backends.reference.module import finish_module
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed

from attnspec.language.expr import Name, names
from attnspec.language.spec import Spec

SCORE = Name("score", "float")
PURPOSE = [
    "attention forward in plain torch, written by attnspec.",
    "One sequence and one query tile at a time, all heads together: a tile is (heads, TILE_Q, TILE_KV), f32. Key tiles that no",
    "row sees are skipped, and those that every row sees run no mask. Products and sums are f32; nothing is rounded to 16 bits.",
]

START = """
t = name_tensors(tensors)
out = zeros(*q.shape[:-1], HEAD_DIM_V)
lse, lost = (zeros(*q.shape[:-1]).transpose(-1, -2).contiguous() for _ in range(2))
for segment in layout.segments:
    for rows in query_tiles(layout, segment, TILE_Q):
        scale = softmax_scale(rows, t)
        query = load_rows(q, rows)
        row_max = zeros(layout.heads, TILE_Q, 1) - INF
        row_sum = zeros(layout.heads, TILE_Q, 1)
        accumulated = zeros(layout.heads, TILE_Q, HEAD_DIM_V)
        for at in key_tiles(rows, TILE_KV, seen_keys(rows.wide, t), hidden_keys(rows.wide, t)):
            key, value = load_keys(k, at), load_keys(v, at)
            score = query @ key.transpose(1, 2) * scale
"""
SCORE_LINE = "score = change_score(at, t, scale, score)"
SPREAD_LINE = "score = spread(change_score(at, t, scale, score), score)"
SOFTMAX = """
new_max = torch.maximum(row_max, score.amax(-1, keepdim=True))
shift = torch.where(new_max == -INF, 0.0, new_max)
probability = torch.exp(score - shift)
rescale = torch.exp(row_max - shift)
row_sum = row_sum * rescale + probability.sum(-1, keepdim=True)
accumulated = accumulated * rescale + weigh(probability, score != -INF, value)
row_max = new_max
"""
SINK = """
sink = to_float(sink_score(rows, t, scale))
new_max = torch.maximum(row_max, sink)
shift = torch.where(new_max == -INF, 0.0, new_max)
rescale = torch.exp(row_max - shift)
row_sum = row_sum * rescale + torch.exp(sink - shift)
accumulated = accumulated * rescale
row_max = new_max
"""
FINISH = """
store_rows(out, rows, accumulated / torch.where(row_sum == 0, 1.0, row_sum))
row_lse = row_max + torch.log(row_sum)
store_row_values(lse, rows, row_lse)
store_row_values(lost, rows, torch.where(row_sum == 0, 0.0, row_max - row_lse + torch.log(row_sum)))
"""


def emit_forward(analysed: Analysed) -> Module:
    """`forward(q, k, v, tensors, layout)`, its score, mask and sink functions, and its walk over key tiles."""
    spec, source = analysed.spec, Source()
    write_tensor_names(source, spec)
    source.blank(2)
    write_scale(source, spec)
    if spec.score != SCORE:
        source.blank(2)
        purpose = ["The score after the score statements, natural units, f32."]
        write_function(source, spec, "change_score", "at, t, scale, score", purpose, [spec.score])
    source.blank(2)
    write_mask(source, spec)
    source.blank(2)
    write_sink(source, spec, [])
    write_key_ranges(source, analysed)
    source.blank(2)
    write_loops(source, spec)
    return finish_module("forward", spec, PURPOSE, source)


def write_loops(source: Source, spec: Spec) -> None:
    """The tile loops."""
    with source.block("def forward(q, k, v, tensors, layout):"):
        source.docstring(
            "out (as q with the value's width, f32), lse (natural log, f32; (batch, heads, len_q), or (heads, total)), and what",
            "lse lost when it was rounded to f32: where scores are large, that is most of the logarithm of the sum.",
            "",
            "q, k, v: (batch, length, heads, head_dim), or (total, heads, head_dim) packed. An empty row gets out = 0.",
        )
        source.text(START)
        source.depth += 3
        if spec.score != SCORE:
            source.line(SCORE_LINE if "score" in names(spec.score) else SPREAD_LINE, spec.score_span)
        write_masking(source, spec)
        source.text(SOFTMAX)
        source.depth -= 1
        if spec.sink is not None:
            source.text(SINK)
        source.text(FINISH)
        source.depth -= 2
        source.line("return out, lse, lost")


def write_masking(source: Source, spec: Spec) -> None:
    """The lines that hide what a row does not see; a tile that is full runs none."""
    visible = "at.inside" if spec.mask is None else "at.inside & is_visible(at, t, scale)"
    with source.block("if not at.is_full:"):
        source.line(f"score = torch.where({visible}, score, -INF)", spec.mask_span)
