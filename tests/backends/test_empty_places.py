"""Places of a round that have no work tile: CTAs that take them do nothing, and no tile is left out, forward or backward."""

from unittest.mock import patch

import pytest
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts
from attnspec.runtime.emulation import emulation

import attnspec

DENSE = "attention places\nhead_dim 16\nmask = causal\n"
PACKED = "attention places\nhead_dim 16\nvarlen\nmask = causal\n"
HEADS = 3


def inputs_of(attention: attnspec.Attention) -> Inputs:
    """600 rows of three heads: 9 work tiles of 256 rows, 12 of 192 or 15 of 128 or 128 keys; packed, three sequences of that."""
    drawn = draw_inputs(attention.spec, Shape(1, HEADS, HEADS, 600, 600))
    if not attention.spec.is_varlen:
        return drawn
    ends = {f"cu_seqlens_{side}": starts([130, 1, 469]) for side in ("q", "kv")}
    return Inputs(drawn.q, drawn.k, drawn.v, drawn.tensors, drawn.dout, drawn.dlse, ends)


@pytest.mark.parametrize("processors", [pytest.param(2, marks=pytest.mark.slow), 4, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", [DENSE, PACKED], ids=["dense", "packed"])
@pytest.mark.parametrize("target", ["sm100", "sm90"])
def test_results_are_right_where_rounds_are_not_full(target: str, text: str, processors: int) -> None:
    attention = attnspec.build(text, target=target, on="emulator")
    with emulation(processors), patch("attnspec.runtime.emulated_program.CTAS", processors):
        found = compare(attention, inputs_of(attention))
    assert all(row.is_right for row in found), [(row.name, row.error, row.worst) for row in found]


@pytest.mark.slow
def test_a_pair_of_ctas_takes_its_places_together() -> None:
    attention = attnspec.build(DENSE.replace("16", "128"), target="sm100", on="emulator", ctas=2)
    inputs = draw_inputs(attention.spec, Shape(1, HEADS, HEADS, 520, 520))
    with emulation(1), patch("attnspec.runtime.emulated_program.CTAS", 4):
        found = compare(attention, inputs)
    assert all(row.is_right for row in found), [(row.name, row.error, row.worst) for row in found]
