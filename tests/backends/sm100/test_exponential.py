"""2^x on the FMA pipe, against exp2 in float64, on every bf16 value a score can be."""

import numpy as np
import pytest
from attnspec.lowering.schedule.schedule import EXPONENTIAL_ERRORS

from tests.backends.sm100.exponential_kernel import exponentials

F32 = 2.0**-24
HIGHEST = 8.0  # the rescale threshold: no exponent is above it


def every_bf16() -> np.ndarray:
    """Every finite bf16 value up to the threshold, as f32."""
    bits = np.arange(2**16, dtype=np.uint32) << 16
    values = bits.view(np.float32)
    chosen = values[np.isfinite(values) & (values <= HIGHEST)]
    return chosen[: chosen.size // 2 * 2]


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_emulated_exponential_is_as_near_as_its_polynomial(degree: int) -> None:
    x = every_bf16()
    got, exact = exponentials(x, degree).astype(np.float64), np.exp2(x.astype(np.float64))
    normal = x >= -126
    relative = np.abs(got - exact)[normal] / exact[normal]
    assert relative.max() <= EXPONENTIAL_ERRORS[degree] + 2 * degree * F32  # and two roundings of f32 for each step
    assert (np.abs(got - exact)[~normal] < 2.0**-126).all()
    assert (got[x <= -127] == 0).all()
    assert (got[x == 0] == 1).all()


@pytest.mark.parametrize("degree", [0, 3, 5])
def test_whole_exponents_are_exact(degree: int) -> None:
    x = np.arange(-126, 8, dtype=np.float32)
    assert (exponentials(x, degree) == np.exp2(x)).all()


@pytest.mark.parametrize("degree", [0, 3, 5])
def test_minus_infinity_gives_zero(degree: int) -> None:
    x = np.array([-np.inf, 0, 0, -np.inf, -np.inf, -np.inf], dtype=np.float32)
    assert (exponentials(x, degree) == np.array([0, 1, 1, 0, 0, 0])).all()


@pytest.mark.parametrize("degree", [3, 4, 5])
def test_nan_is_kept_where_asked(degree: int) -> None:
    x = np.array([np.nan, 0, -3, np.nan, -np.inf, -1], dtype=np.float32)
    got = exponentials(x, degree, keeps_nan=True)
    assert (np.isnan(got) == np.isnan(x)).all()
    assert (got[[1, 4]] == [1, 0]).all()
    assert (got[[2, 5]] == exponentials(x[[2, 5]], degree)).all()
