"""Constants of the online softmax: public bug reports as cases (E3, E4, E7, E9), and the toolchain guard of B15."""

import math

import numpy as np
import pytest
from attnspec.backends.cute.kernel.blocks.exponential import POLYNOMIALS
from attnspec.lowering.schedule import make_choices
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.refuse_threshold import refuse_threshold
from attnspec.runtime.toolchain import known_against, ptxas_of

from attnspec import stages
from tests.backends.sm100.build import compiled, scheduled
from tests.cases.attend import near, spec

FP16 = "attention plain\nhead_dim 64\ndtype fp16\n"
E4M3_OFFSET = 8.0  # P of 8 bits is moved up by as much, so that its small values are not lost (FA4)
TILE = 128


@pytest.mark.parametrize(("dtype", "most"), [("e4m3", 8.807), ("e5m2", 15.807), ("fp16", 15.9993)])
def test_e3_a_threshold_is_refused_where_the_type_of_p_ends(dtype, most):
    refuse_threshold(math.floor(most * 100) / 100, dtype)
    with pytest.raises(ScheduleError, match=f"holds {most}"):
        refuse_threshold(most + 0.01, dtype)


def test_e3_what_p_is_moved_up_by_counts_too():
    with pytest.raises(ScheduleError, match="moved up by 8"):
        refuse_threshold(4.0, "e4m3", E4M3_OFFSET)
    refuse_threshold(0.0, "e4m3", E4M3_OFFSET)


def test_e3_a_dominant_weight_is_not_cut_off(target):
    """Two tiles, the second 4 higher in log2 units: its weight is 16 / 17, not that of a P that ended at the type's largest."""
    logits = [0.0] * TILE + [4 * math.log(2)] * TILE
    found = target.attend(spec(f"mask = kv % {TILE} == 0"), 1, [0.0] * TILE + [1.0] * TILE, logits)
    assert found.out == near([16 / 17])


@pytest.mark.parametrize(("threshold", "is_refused"), [(15.0, False), (16.0, True), (17.0, True)])
def test_e4_a_threshold_that_fp16_cannot_hold_gives_no_kernel(threshold, is_refused, monkeypatch):
    monkeypatch.setattr(make_choices, "RESCALE_THRESHOLD", threshold)
    analysed = stages.analyse(stages.read(FP16))
    if is_refused:
        with pytest.raises(ScheduleError, match="fp16"):
            stages.place(stages.draw(analysed), analysed)
    else:
        assert stages.place(stages.draw(analysed), analysed).choices.rescale_threshold == threshold


@pytest.mark.parametrize(("degree", "largest"), [(3, 8.8e-5), (4, 3.1e-6), (5, 1.5e-7)])
def test_e7_polynomials_are_as_near_as_they_say_and_exact_at_0(degree, largest):
    """In float64, apart from the kernel: 2^f on [0, 1); the kernel's own are in tests/backends/sm100/test_exponential.py."""
    f = np.linspace(0, 1, 1 << 20, endpoint=False)
    value = np.polynomial.polynomial.polyval(f, (1.0, *POLYNOMIALS[degree]))
    assert np.abs(value / np.exp2(f) - 1).max() <= largest
    assert value[0] == 1.0


def test_e7_a_row_that_sees_nothing_sums_to_exactly_0(target):
    found = target.attend(spec("mask = kv < q"), 2, [1.0] * 300)
    assert (found.out[0], found.lse[0]) == (0.0, -math.inf)


def test_e9_the_threshold_is_in_log2_units_whatever_the_scale_is():
    """8 in log2 units is 5.545 natural: the growth is compared after the factor that makes log2 units of scores."""
    assert scheduled(FP16)[1].choices.rescale_threshold == 8.0
    assert math.isclose(8.0 * math.log(2), 5.545177, rel_tol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 0.125])
@pytest.mark.parametrize("growth", [7.99, 8.01])
def test_e9_a_row_that_grows_to_the_threshold_and_past_it_is_right_on_every_path(target, scale, growth):
    """P reaches 256 at 8: with the unit confused it would reach 2^11.5, or 2^5.5."""
    logits = [0.0] * TILE + [growth * math.log(2) / scale] * TILE
    text = spec(f"mask = kv % {TILE} == 3").replace("scale 1.0", f"scale {scale}")
    found = target.attend(text, 1, [0.0] * TILE + [1.0] * TILE, logits)
    assert found.out == near([2.0**growth / (1 + 2.0**growth)])


def cubin(version):
    return b"\x7fELF..Cuda compilation tools, release 12.9, V" + version + b"\n"


@pytest.mark.parametrize(
    ("version", "is_told"), [(b"12.9.83", True), (b"12.8.61", True), (b"13.0.48", False), (b"12.6.85", False)]
)
def test_b15_a_ptxas_of_a_range_with_reported_faults_is_told_with_the_range(version, is_told):
    told = known_against(cubin(version))
    assert bool(told) == is_told
    assert not is_told or "12.8.0 to 12.9.86" in told[0]


@pytest.mark.slow
def test_b15_a_cubin_of_ours_names_its_ptxas():
    assert ptxas_of(compiled(FP16).cubin) is not None
