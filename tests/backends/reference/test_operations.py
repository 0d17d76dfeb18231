"""The operations that emitted text calls, held against Python's and numpy's."""

import numpy as np
import pytest
import torch
from attnspec.backends.reference import operations as op
from attnspec.backends.reference.tiles import meets, weigh

INTS = [-(2**31), -7, -3, -1, 0, 1, 2, 5, 2**31 - 1]
PAIRS = [(a, b) for a in INTS for b in INTS]


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def test_division_and_remainder_floor_as_pythons_do_and_by_zero_are_zero():
    left, right = ints([a for a, _ in PAIRS]), ints([b for _, b in PAIRS])
    pairs = [(a, b) for a, b in PAIRS if (a, b) != (-(2**31), -1)]  # leaves 32 bits: a call is refused before
    found = dict(zip(PAIRS, zip(op.floor_divide(left, right).tolist(), op.remainder(left, right).tolist(), strict=True)))
    assert {pair: found[pair] for pair in pairs} == {(a, b): divmod(a, b) if b else (0, 0) for a, b in pairs}


@pytest.mark.parametrize("amount", [-1, 0, 1, 31, 32, 100])
def test_shifts_stay_in_32_bits_and_have_no_undefined_amounts(amount):
    values = ints(INTS)
    inside = 0 <= amount < 32
    left = [int(np.int32(np.uint32((a << amount) & 0xFFFFFFFF))) if inside else 0 for a in INTS]
    right = [a >> (amount if inside else 31) for a in INTS]
    assert op.shift_left(values, amount).tolist() == left
    assert op.shift_right(values, amount).tolist() == right


def test_floor_saturates_and_nan_gives_zero():
    values = torch.tensor([1.5, -1.5, float("inf"), float("-inf"), float("nan"), 3e9, -3e9])
    assert op.floor(values).tolist() == [1, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]


def test_a_read_outside_the_extent_gives_the_nearest_end():
    array = torch.arange(12).reshape(3, 4)
    assert op.read(array, ints([-5, 1, 9]), ints([9, -1, 2])).tolist() == [3, 4, 10]


def test_reads_of_16_bit_floats_are_f32_and_of_bools_bool():
    assert op.read(torch.zeros(2, dtype=torch.bfloat16), 1).dtype == torch.float32
    assert op.read(torch.zeros(2, dtype=torch.bool), 1).dtype == torch.bool


@pytest.mark.parametrize("which", ["scalar", "row", "distance", "one for all"])
def test_slopes_are_added_where_the_pairs_read(which):
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(2, 5, 7)).astype(np.float32)
    h, q, kv = np.arange(2)[:, None, None], np.arange(5)[None, :, None], np.arange(7)[None, None]
    shape, where = {
        "scalar": ((), ()),
        "row": ((2, 5), (h, q)),
        "distance": ((2, 11), (h, q - kv + 6)),
        "one for all": ((3,), (np.int64(1),)),
    }[which]
    expected = np.zeros(shape)
    np.add.at(expected, tuple(np.broadcast_to(index, slope.shape) for index in where), slope if where else slope.sum())
    total = torch.zeros(shape, dtype=torch.float64)
    op.add_at(total, tuple(torch.as_tensor(index) for index in where), torch.tensor(slope))
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_search_is_numpys_in_every_row(side):
    rows = np.sort(np.random.default_rng(0).integers(0, 9, size=(3, 20)), axis=-1)
    values = np.array([[[-1], [4], [9]]])
    h = torch.arange(3)[:, None, None]
    found = op.search(torch.tensor(rows), (h,), torch.tensor(values), side)
    expected = [[[np.searchsorted(row, value, side)] for value in (-1, 4, 9)] for row in rows]
    assert found.tolist() == expected
    assert op.search(torch.tensor(rows[0]), (), 4, side).item() == np.searchsorted(rows[0], 4, side)


def test_a_search_in_unsorted_numbers_stays_inside_the_tensor():
    rows = torch.randint(-9, 9, (50, 30))
    found = op.search(rows, (torch.arange(50)[:, None],), torch.tensor(0), "left")
    assert found.min() >= 0
    assert found.max() <= 30


def test_tiles_meet_ranges_that_share_a_position_with_them():
    starts, ends = torch.tensor([0, 10, 20]), torch.tensor([10, 20, 25])
    assert meets([(5, 10)], starts, ends).tolist() == [True, False, False]
    assert meets([(9, 11), (30, 99)], starts, ends).tolist() == [True, True, False]
    assert meets([(7, 7), (9, 3)], starts, ends).tolist() == [False, False, False]
    by_head = (torch.tensor([0, 24]).reshape(2, 1, 1), torch.tensor([1, 99]).reshape(2, 1, 1))
    assert meets([by_head], starts, ends).tolist() == [True, False, True]


def test_weighing_leaves_out_what_is_not_seen():
    seen = torch.tensor([[[True, False], [True, True]]])
    weight = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    value = torch.tensor([[[2.0, 3.0], [float("nan"), float("inf")]]])
    found = weigh(weight, seen, value)
    assert found[0, 0].tolist() == [2, 3]
    assert found[0, 1, 0].isnan()
    assert found[0, 1, 1] == float("inf")
