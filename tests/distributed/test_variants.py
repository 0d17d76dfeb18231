"""Every variant over 2, 3 and 4 processes, forward and backward: held against the float64 oracle and one process."""

from itertools import product

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape

import attnspec
from attnspec.distributed.layout import layout_from
from tests.distributed.cases import Case, outcome
from tests.random_variants import random_variant
from tests.small_constants import VARIANTS

SHORT = Shape(1, 2, 1, 73, 73)
LONG = Shape(2, 4, 2, 301, 301)
STRATEGIES = ("ring", "all_gather", "ulysses")
LAYOUTS = ("contiguous", "zigzag", "striped:40")
UNEVEN = layout_from("uneven", [(5, 2), (20, 0), (30, 1), (18, 2)], 3)
# A run of 150 rows sees its neighbours from its ends alone: their parts have the rows of one tile of 128.
WINDOW = "attention window\nhead_dim 16\nlearned sinks: f32[heads]\nlearned slope: f32[heads]\n" + (
    "score = score + slope[h] * (kv - qpos) / 64\nmask = window(40, 3)\nsink = sinks[h]\n"
)
# Each of: sink, learned scores and sums, tensors by position and shards of them, packed sequences, bounded score, tree words.
FEW = (
    (3, Case("gpt_oss", SHORT, "ring", "zigzag")),
    (4, Case("forgetting", SHORT, "ring", "contiguous", sharded=("gate_q", "gate_kv"))),
    (2, Case("document_causal", SHORT, "all_gather", "zigzag", sharded=("ids_q", "ids_kv"))),
    (3, Case("packed_varlen", Shape(3, 2, 1, 40, 40), "ring", "striped:17")),
    (2, Case("alibi", SHORT, "ulysses", "zigzag")),
    (2, Case("packed_varlen", Shape(3, 2, 2, 40, 40), "ulysses", "contiguous")),
    (3, Case("packed_varlen", Shape(3, 2, 1, 40, 40), "all_gather", "zigzag")),
    (3, Case("gemma2_local", SHORT, "ring", UNEVEN)),
    (2, Case("tree_mask", SHORT, "ring", "zigzag", sharded=("words",))),
    (4, Case("pair_bias", Shape(1, 2, 1, 9, 70), "ring", "contiguous", sharded=("bias",))),
    (4, Case("relative_bias", Shape(1, 2, 1, 2, 3), "ring", "contiguous")),
    (4, Case("gpt_oss", Shape(1, 4, 2, 7, 2), "ulysses", "zigzag")),
    (3, Case(WINDOW, Shape(1, 2, 1, 450, 450), "ring", "contiguous")),
)


def name_of(value: object) -> str | None:
    """Of a case in a list of tests."""
    if isinstance(value, Case):
        return f"{value.variant.split()[1] if ' ' in value.variant else value.variant}-{value.strategy}"
    return None


@pytest.mark.parametrize(("size", "case"), FEW, ids=name_of)
def test_a_variant_over_processes_agrees_with_the_oracle(processes, size, case):
    assert outcome(processes, case, size)[0] == []


@pytest.mark.parametrize("strategy", ["all_gather", "ulysses"])
def test_whole_rows_have_the_bits_of_one_process(processes, strategy):
    _, together, alone = outcome(processes, Case("gemma2_local", Shape(1, 2, 2, 200, 200), strategy, "zigzag"), 2)
    assert all(together[name].equal(alone[name]) for name in ("out", "lse", "q"))


def test_the_ring_is_within_a_rounding_of_one_process(processes):
    _, together, alone = outcome(processes, Case("causal", Shape(1, 2, 1, 150, 150), "ring", "zigzag"), 3)
    assert torch.allclose(together["lse"], alone["lse"], rtol=1e-6, atol=1e-6)
    for name in ("out", "q", "k", "v"):
        difference = (together[name].float() - alone[name].float()).abs()
        # Neighbours of bf16 are up to 2^-7 of the value apart; f32 sums of 150 terms of 1 differ by less than 2^-16.
        assert bool((difference <= 2.0**-7 * alone[name].float().abs() + 2.0**-16).all()), name


def test_a_ring_gives_the_same_bits_again(processes):
    case = Case("gpt_oss", Shape(1, 2, 1, 150, 150), "ring", "zigzag")
    first, again = outcome(processes, case, 3)[1], outcome(processes, case, 3)[1]
    assert all(first[name].equal(again[name]) for name in first)


@pytest.mark.parametrize("seed", [0, 4, 5, 10])
def test_a_random_variant_over_processes_agrees_with_the_oracle(processes, seed):
    assert outcome(processes, random_case(seed), 3)[0] == []


def random_case(seed: int) -> Case:
    """A random variant, cut at random places."""
    generator = torch.Generator().manual_seed(seed)
    length = int(torch.randint(1, 150, (1,), generator=generator))
    text = random_variant(seed)
    shape = Shape(2, 2, 2, length, length)
    sharded = ("ids_q", "row") if seed % 2 and "varlen" not in text else ()
    if "varlen" in text:
        return Case(text, shape, STRATEGIES[seed % 2], LAYOUTS[seed % 3], seed)
    runs, left = [], length
    while left:
        count = min(left, int(torch.randint(1, 60, (1,), generator=generator)))
        runs.append((count, int(torch.randint(0, 3, (1,), generator=generator))))
        left -= count
    return Case(text, shape, STRATEGIES[seed % 2], layout_from("random", runs, 3), seed, sharded)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_variant_strategy_and_layout_agrees_with_the_oracle(processes, variant, size):
    for strategy, layout in product(STRATEGIES, LAYOUTS):
        if strategy != "ulysses" or size != 3:
            assert outcome(processes, Case(variant, LONG, strategy, layout), size)[0] == [], (strategy, layout)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_many_random_variants_agree_with_the_oracle(processes, seed):
    case = random_case(seed)
    try:
        attnspec.build(case.variant)
    except attnspec.SpecError:
        return
    assert outcome(processes, case, 3)[0] == []
