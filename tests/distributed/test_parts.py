"""Parts put together: bits of what is alone, rounding of what is joined, and what it costs in passes over memory."""

import pytest
import torch
from attnspec.runtime.parts import Partial
from torch import Tensor

import attnspec
from attnspec.distributed.layout import layout_from, layout_of
from attnspec.distributed.load import Widths
from attnspec.distributed.merge import Results
from attnspec.distributed.plan import make_plan
from attnspec.distributed.shares import MOST_HELD, Sum
from attnspec.distributed.visible import Sight, Sizes
from benchmarks.passes import passes

QUERY = torch.empty(2, 12, 3, 8, dtype=torch.bfloat16)
ROUNDING = 2.0**-8  # of bf16, of the value
EXACT = 2.0**-21  # some roundings of f32


def drawn(count: int, seed: int, dtype: torch.dtype = torch.bfloat16) -> Partial:
    """A part's results for some rows; of some of them it saw no key."""
    generator = torch.Generator().manual_seed(seed)
    out = torch.randn(2, count, 3, 8, generator=generator).to(dtype)
    lse = torch.randn(2, 3, count, generator=generator) * 8
    is_blind = torch.rand(2, 3, count, generator=generator) < 0.2
    lost = torch.zeros_like(lse) if dtype == torch.float32 else None
    return Partial(out.masked_fill(is_blind.transpose(1, 2)[..., None], 0), lse.masked_fill(is_blind, -torch.inf), lost)


def exact(parts: list[tuple[int, Partial]]) -> tuple[Tensor, Tensor]:
    """out and lse of all rows in f64."""
    lse = torch.full((len(parts), 2, 3, 12), -torch.inf, dtype=torch.float64)
    out = torch.zeros(len(parts), 2, 12, 3, 8, dtype=torch.float64)
    for number, (first, part) in enumerate(parts):
        rows = slice(first, first + part.out.shape[1])
        lse[number, ..., rows], out[number, :, rows] = part.lse, part.out
    total = lse.logsumexp(0)
    weights = torch.exp(lse - total.masked_fill(total == -torch.inf, 0)).transpose(2, 3).unsqueeze(-1)
    return (weights * out).sum(0), total


def results(parts: list[tuple[int, Partial]], dtype: torch.dtype = torch.bfloat16) -> Partial:
    """Parts joined; they may be written to, and are copied before."""
    found = Results(QUERY, 8, dtype)
    for first, part in parts:
        lost = None if part.lost is None else part.lost.clone()
        found.add(first, Partial(part.out.clone(), part.lse.clone(), lost))
    return found.result()


def test_a_part_alone_is_taken_over_as_it_is():
    part, found = drawn(12, 1), Results(QUERY, 8, torch.bfloat16)
    found.add(0, part)
    assert found.result() is part


def test_a_sum_of_one_part_is_that_part():
    value, found = torch.randn(2, 12, 3, 8).bfloat16(), Sum(12)
    found.add(0, value)
    assert found.result(QUERY) is value


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("spans", [[(0, 12), (0, 12)], [(0, 12), (0, 5), (3, 9)], [(2, 4), (3, 8), (9, 12)], [(0, 12)] * 9, []])
def test_parts_of_any_rows_are_joined_within_a_rounding_of_the_result(spans, dtype):
    parts = [(first, drawn(last - first, seed, dtype)) for seed, (first, last) in enumerate(spans)]
    out, lse = exact(parts) if parts else (torch.zeros(2, 12, 3, 8), torch.full((2, 3, 12), -torch.inf))
    found = results(parts, dtype)
    allowed = ROUNDING * out.abs() + EXACT if dtype == torch.bfloat16 else EXACT * 4
    assert found.out.dtype == dtype
    assert bool(((found.out - out).abs() <= allowed).all())
    assert torch.allclose(found.lse.double(), lse.double(), rtol=EXACT, atol=EXACT)


def test_rows_of_one_part_keep_its_bits_beside_rows_of_many():
    parts = [(0, drawn(12, 1)), *((4, drawn(4, seed)) for seed in range(2, 12))]
    assert sum(part.out.shape[1] for _, part in parts) > MOST_HELD * 12  # joined along the way, too
    found, first = results(parts), parts[0][1]
    for rows in (slice(0, 4), slice(8, 12)):
        assert found.out[:, rows].equal(first.out[:, rows])
        assert found.lse[..., rows].equal(first.lse[..., rows])


def test_a_nan_stays_in_its_own_rows():
    parts = [(0, drawn(12, 1)), (4, drawn(4, 2))]
    parts[1][1].out[0, 1, 0, 0] = torch.nan  # row 5
    is_nan = results(parts).out.isnan()
    assert is_nan[0, 5, 0, 0]
    assert is_nan.sum() == 1


@pytest.mark.parametrize("times", [1, 2, 3, 12])
def test_a_sum_is_rounded_once(times):
    generator = torch.Generator().manual_seed(times)
    values = [torch.randn(2, 8, 3, 8, generator=generator).bfloat16() for _ in range(times)]
    found = Sum(12)
    for value in values:
        found.add(3, value.clone())
    total = found.result(QUERY)
    assert total[:, 3:11].equal(torch.stack(values).float().cumsum(0)[-1].bfloat16())
    assert not total[:, :3].any()
    assert not total[:, 11:].any()


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped:3", layout_from("any", [(4, 2), (9, 0), (5, 2), (3, 1)], 3)])
def test_shards_end_to_end_are_put_in_order_and_back_by_slices(layout):
    layout = layout_of(layout, 21, 3)
    by_rank, positions = torch.from_numpy(layout.order), torch.arange(21)
    assert layout.by_position(by_rank).equal(positions)
    assert layout.by_rank(positions).equal(by_rank)
    assert layout.own(positions, 1).equal(torch.from_numpy(layout.positions(1)))


def plan_of(mask: str, length: int, ranks: int, layout: str):
    """Of 16 heads over 4."""
    walk = attnspec.build(f"attention some\nhead_dim 128\nmask = {mask}\n").analysed.keys
    made = layout_of(layout, length, ranks)
    return make_plan(Sight(walk, Sizes(1, 16, 4, (length,), (length,))), Widths(16, 4, 128, 128), made, made)


def test_what_a_window_moves_around_its_kernels_does_not_go_with_its_length():
    short, long = (passes(plan_of("window(1023, 0)", length, 4, "contiguous"), "ring", 2) for length in (2**15, 2**20))
    assert [one.moved for one in short] == [one.moved for one in long]
    assert [len(one.rows) for one in long] == [2, 2]
    assert long[0].rows == [2**18, 1024]


def test_two_parts_of_all_rows_are_joined_in_two_passes():
    plan = plan_of("causal", 2**16, 2, "zigzag")
    found, size = passes(plan, "ring", 1)[0], 2 * 2**15 * 16 * 128  # of out in 16 bits
    keys = 2 * 2**14 * 2 * 4 * 256  # what the other rank sees of this one's, read and written
    # One pass reads 16 bits and writes f32, the next reads both and writes 16 bits; numbers a row are 1/128 of f32 each.
    assert found.moved <= 7 * size + 2 * keys + 40 * size // 64


@pytest.mark.parametrize("strategy", ["ring", "all_gather", "ulysses"])
def test_with_a_plan_no_value_is_looked_at(strategy):
    plan = plan_of("causal", 4096, 4, "zigzag")
    for rank in range(4):
        passes(plan, strategy, rank)  # on tensors without memory looking is an error
