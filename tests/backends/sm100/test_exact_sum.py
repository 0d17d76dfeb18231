"""Exact sums, against sums in whole numbers of 2^-149."""

from fractions import Fraction

import numpy as np
import pytest
from attnspec.backends.cute.emit.manifest import EXACT_WORDS
from attnspec.backends.cute.kernel.blocks.exact_sum import WORDS

from tests.backends.sm100.exact_sum_kernel import exact_sums

SUMS = 9


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all magnitudes, many of which cancel, and where they go."""
    generator = np.random.default_rng(seed)
    x = (generator.standard_normal(700) * 2.0 ** generator.integers(-148, 120, 700)).astype(np.float32)
    x = np.concatenate([x, -x[:600], generator.standard_normal(200).astype(np.float32) * np.float32(2.0**-140)])
    order = generator.permutation(len(x))
    return x[order], np.arange(len(x))[order] % SUMS


def expected(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    sums = [sum((Fraction(float(value)) for value in x[places == at]), Fraction(0)) for at in range(SUMS)]
    return np.array([float(value) for value in sums]).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_sum_of_all_magnitudes_is_exact_whatever_the_order(seed: int) -> None:
    x, places = drawn(seed)
    found = exact_sums(x, places, SUMS, seed)
    assert np.array_equal(found, expected(x, places))
    assert np.array_equal(exact_sums(x[::-1].copy(), places[::-1].copy(), SUMS, None), found)


def test_what_is_not_finite_stays_so() -> None:
    x = np.array([np.inf, 1, -np.inf, 2, np.nan, 3, np.inf, -np.inf, 0, -0.0, 2.0**-149, -(2.0**-149), -1.5], np.float32)
    places = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6])
    found = exact_sums(x, places, 7)
    assert np.array_equal(found, np.array([np.inf, -np.inf, np.nan, np.nan, 0, 0, -1.5], np.float32), equal_nan=True)


def test_emission_and_library_agree_on_the_words_of_a_sum() -> None:
    assert EXACT_WORDS == WORDS
