"""Packed sequences whose last ones are empty: rows and keys of theirs begin where the tensors end, and nothing is read there."""

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts

import attnspec

TEXT = """attention ends
head_dim 8
varlen
learned sinks: f32[heads]
input first: i32[batch] in 0..len_kv
mask = causal or kv < first[b]
sink = sinks[h]
"""
LENGTHS = [([1, 0], [3, 0]), ([0, 130, 0, 0], [5, 0, 130, 0]), ([0, 0, 2], [7, 0, 0])]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm100", "sm90"])
def test_gradients_where_the_last_sequences_are_empty_are_right(target: str) -> None:
    attention = attnspec.build(TEXT, target=target, on="emulator")
    for rows, keys in LENGTHS:
        drawn = draw_inputs(attention.spec, Shape(1, 2, 1, sum(rows), sum(keys)))
        tensors = draw_inputs(attention.spec, Shape(len(rows), 2, 1, 1, 0)).tensors
        ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
        found = compare(attention, Inputs(drawn.q, drawn.k, drawn.v, tensors, drawn.dout, drawn.dlse, ends))
        assert all(row.is_right for row in found), (rows, keys, [(row.name, row.error, row.worst) for row in found])
