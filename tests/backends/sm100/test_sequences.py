"""Packed sequences, parts of longer ones, and strides, on the emulated kernel through the public call."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, starts

import attnspec
from attnspec import stages

CAUSAL = "attention causal\nhead_dim 64\nmask = kv <= qpos\n"
BIASED = """attention biased
head_dim 64
input bias: f32[len_q, len_kv]
score = score + bias[q, kv]
mask = causal and kv > qpos - 150
"""
LENGTHS = [
    pytest.param(([1] * 50, [1] * 50), id="ones", marks=pytest.mark.slow),
    pytest.param(([63, 65, 127, 129], [63, 65, 127, 129]), id="odd"),
    pytest.param(([0, 300, 0, 5, 1, 0], [7, 417, 0, 0, 2, 9]), id="empty"),
    pytest.param(([257, 0, 255], [0, 0, 130]), id="no keys"),
]


@cache
def build(text: str) -> attnspec.Attention:
    return attnspec.build(text, target="sm100", on="emulator")


def packed(attention: attnspec.Attention, lengths: tuple[list[int], list[int]]) -> Inputs:
    rows, keys = lengths
    drawn = draw_inputs(attention.spec, Shape(1, 2, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    return Inputs(drawn.q, drawn.k, drawn.v, {}, drawn.dout, drawn.dlse, ends)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_packed_sequences_of_any_lengths_are_right(lengths: tuple[list[int], list[int]]) -> None:
    attention = build(CAUSAL + "varlen\n")
    rows = compare(attention, packed(attention, lengths), forward_only=True)
    assert all(row.is_right for row in rows), rows


def test_a_packed_sequence_gives_the_bits_that_it_gives_alone_whatever_its_neighbours_hold() -> None:
    lengths = [63, 300, 129]
    together, alone = build(CAUSAL + "varlen\n"), build(CAUSAL)
    inputs = packed(together, (lengths, lengths))
    first, last = 63, 363
    for array in (inputs.q, inputs.k, inputs.v):
        array[:first], array[last:] = float("nan"), float("inf")
    out, lse = together(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.keywords)
    own, own_lse = alone(*(array[None, first:last] for array in (inputs.q, inputs.k, inputs.v)), return_lse=True)
    assert torch.equal(out[first:last], own[0])
    assert torch.equal(lse[:, first:last], own_lse[0])


@pytest.mark.parametrize(("first", "count"), [(0, 1), (130, 170), (299, 1)])
def test_a_part_of_the_rows_gives_the_bits_of_the_whole(first: int, count: int) -> None:
    attention = build(BIASED)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 417))
    whole, whole_lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True, **inputs.tensors)
    place = {"q_offset": first, "len_q": 300}
    q = inputs.q[:, first : first + count]
    part, lse = attention(q, inputs.k, inputs.v, return_lse=True, **place, **inputs.tensors)
    assert torch.equal(part, whole[:, first : first + count])
    assert torch.equal(lse, whole_lse[..., first : first + count])


@pytest.mark.parametrize(("first", "count"), [(0, 130), (77, 340), (256, 161), (400, 17), (416, 1)])
def test_a_part_of_the_keys_is_right(first: int, count: int) -> None:
    attention = build(BIASED)
    drawn = draw_inputs(attention.spec, Shape(1, 2, 1, 300, 417))
    place = {"kv_offset": first, "len_kv": 417}
    k, v = (array[:, first : first + count] for array in (drawn.k, drawn.v))
    rows = compare(attention, replace(drawn, k=k, v=v, keywords=place), forward_only=True)
    assert all(row.is_right for row in rows), rows


@pytest.mark.slow
def test_a_part_of_the_keys_from_a_tiles_start_on_gives_the_bits_of_the_whole() -> None:
    attention = build("attention late\nhead_dim 64\nmask = kv >= 140\n")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 130, 417))
    whole = attention(inputs.q, inputs.k, inputs.v)
    assert torch.equal(attention(inputs.q, inputs.k[:, 128:], inputs.v[:, 128:], kv_offset=128, len_kv=417), whole)


def by_head(array: torch.Tensor) -> torch.Tensor:
    """The same values in memory ordered (batch, heads, length, width)."""
    return array.transpose(1, 2).contiguous().transpose(1, 2)


def among_others(array: torch.Tensor) -> torch.Tensor:
    """The same values as some heads of a wider tensor, the rest of which is NaN, from an odd row on."""
    batch, length, heads, width = array.shape
    room = torch.full((batch, length + 3, 2 * heads + 1, width + 8), float("nan"), dtype=array.dtype)
    room[:, 3:, 1 : heads + 1, :width] = array
    return room[:, 3:, 1 : heads + 1, :width]


@pytest.mark.parametrize("change", [pytest.param(by_head, marks=pytest.mark.slow), among_others])
def test_strides_of_other_layouts_give_the_same_bits(change) -> None:
    attention = build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(2, 4, 2, 130, 200))
    expected = attention(inputs.q, inputs.k, inputs.v)
    assert torch.equal(attention(*map(change, (inputs.q, inputs.k, inputs.v))), expected)


def test_keys_that_a_batch_shares_are_read_where_they_are() -> None:
    attention = build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 130, 200))
    k, v = (array[:1].expand(2, -1, -1, -1) for array in (inputs.k, inputs.v))
    assert torch.equal(attention(inputs.q, k, v), attention(inputs.q, k.contiguous(), v.contiguous()))


POISON = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def marked(array: torch.Tensor) -> torch.Tensor:
    """Values that can be compared where they are not finite."""
    return torch.nan_to_num(array, nan=777.0, posinf=888.0, neginf=999.0)


def test_a_value_that_is_not_finite_stays_with_the_rows_that_see_it() -> None:
    attention = build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 150, 150))
    expected, lse = attention(inputs.q, inputs.k, inputs.v, return_lse=True)
    v = inputs.v.clone()
    v[0, 100, 0, 3], v[0, 110, 0, 9], v[0, 130, 0, 9], v[1, 7, 0, 60] = (*POISON.values(), float("nan"))
    expected[0, 100:, :, 3], expected[0, 110:, :, 9], expected[0, 130:, :, 9] = float("nan"), float("inf"), float("nan")
    expected[1, 7:, :, 60] = float("nan")
    out, found = attention(inputs.q, inputs.k, v, return_lse=True)
    assert torch.equal(marked(out), marked(expected))
    assert torch.equal(found, lse)


def poisoned_call(attention: attnspec.Attention) -> Inputs:
    inputs = draw_inputs(attention.spec, Shape(1, 1, 1, 300, 150))
    inputs.v[0, 40, 0, 3] = float("nan")
    return inputs


TIMED = {
    "packed": (CAUSAL + "varlen\n", lambda attention: packed(attention, ([63, 0, 300], [65, 7, 130]))),
    "wide": ("attention wide\nhead_dim 256\nmask = kv <= qpos\n", lambda one: draw_inputs(one.spec, Shape(1, 2, 1, 300, 150))),
    "not finite": (CAUSAL, poisoned_call),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", TIMED)
def test_bits_are_the_same_for_every_timing(call: str) -> None:
    text, draw = TIMED[call]
    attention = build(text)
    inputs = draw(attention)
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing(**inputs.keywords))
    program = stages.kernel(attention, "sm100").program
    given = Call(inputs.q, inputs.k, inputs.v, (), layout, False)
    first = program.run(given, None)[0]
    for seed in range(20):
        again = program.run(given, seed)[0]
        assert torch.equal(marked(again.out), marked(first.out))
        assert torch.equal(again.lse, first.lse)


@pytest.mark.parametrize(
    "dims", ["256", pytest.param("136, 200", marks=pytest.mark.slow), pytest.param("8", marks=pytest.mark.slow)]
)
def test_wide_and_narrow_heads_are_right(dims: str) -> None:
    attention = build(f"attention wide\nhead_dim {dims}\nmask = kv <= qpos\n")
    for shape in (Shape(1, 2, 1, 150, 217), Shape(1, 2, 2, 1, 133), Shape(1, 1, 1, 4, 2)):
        rows = compare(attention, draw_inputs(attention.spec, shape), forward_only=True)
        assert all(row.is_right for row in rows), rows
