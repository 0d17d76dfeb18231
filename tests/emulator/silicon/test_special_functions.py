"""The models of the special functions against what the H200 answered."""

import hashlib
import pathlib

import numpy as np
import pytest
from attnspec.emulator.numerics import measured as models
from attnspec.emulator.numerics.approximations import using

from tests.emulator.silicon.elementwise import approximations
from tests.emulator.silicon.sweeps import COARSE, OCTAVE, OCTAVES
from tests.emulator.silicon.tables import CODES, FUNCTIONS
from tests.emulator.silicon.test_answers import run

DATA = pathlib.Path(__file__).parent / "data"
MODELLED = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh")
STORED = np.load(DATA / "sweeps.npz").files
SWEEPS = [(name, first) for name in MODELLED for first in OCTAVES[name] if f"sweep_{name}_{first:08x}/out.sha256" in STORED]
ROWS = {name: 2 * row + 1 for row, name in enumerate(MODELLED[:-1])} | {"tanh": 14}  # the .ftz row of each, where it has one


@pytest.mark.parametrize("name", MODELLED)
def test_every_exponent_agrees_with_the_gpu(name: str) -> None:
    arguments = approximations()[0].parameters[0].initial
    measured = np.load(DATA / "elementwise.npz")["approximate/out"][ROWS[name]]
    found = getattr(models, name)(arguments)
    wrong = np.flatnonzero(found != measured)
    assert not wrong.size, [f"{arguments[i]:08x}: {found[i]:08x}, gpu {measured[i]:08x}" for i in wrong[:8]]


@pytest.mark.parametrize(("name", "first"), SWEEPS)
def test_sampled_mantissas_agree_with_the_gpu(name: str, first: int) -> None:
    measured = np.load(DATA / "sweeps.npz")[f"sweep_{name}_{first:08x}/out.sampled"]
    arguments = (first + np.arange(0, OCTAVE, 4096)).astype(np.uint32)
    assert np.array_equal(getattr(models, name)(arguments), measured)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), SWEEPS)
def test_every_mantissa_agrees_with_the_gpu(name: str, first: int) -> None:
    digest = np.load(DATA / "sweeps.npz")[f"sweep_{name}_{first:08x}/out.sha256"].tobytes()
    found = hashlib.sha256()
    for start in range(0, OCTAVE, 1 << 20):
        arguments = (first + start + np.arange(1 << 20)).astype(np.uint32)
        found.update(getattr(models, name)(arguments).tobytes())
    assert found.digest() == digest


@pytest.mark.parametrize("name", MODELLED)
def test_sampled_floats_of_all_exponents_agree_with_the_gpu(name: str) -> None:
    measured = np.load(DATA / "sweeps.npz")[f"coarse_{name}/out.sampled"]
    arguments = (np.arange(0, (1 << 32) // COARSE, 4096) * COARSE).astype(np.uint32)
    assert np.array_equal(getattr(models, name)(arguments), measured)


@pytest.mark.parametrize("table", list(FUNCTIONS))
def test_every_16_bit_float_agrees_with_the_gpu(table: str) -> None:
    name, kind = table.split("_")
    words = np.load(DATA / "tables.npz")[f"table_{table}/out"]
    codes = np.arange(CODES, dtype=np.uint16)
    assert np.array_equal(models.half(name, codes, kind), (words & 0xFFFF).astype(np.uint16))
    assert np.array_equal(models.half(name, codes[::-1].copy(), kind), (words >> 16).astype(np.uint16))


@pytest.mark.parametrize("name", MODELLED)
def test_a_kernel_gets_the_bits_of_the_gpu_with_the_measured_table(name: str) -> None:
    probe = approximations()[0]
    measured = np.load(DATA / "elementwise.npz")["approximate/out"][ROWS[name]]
    with using(models.MEASURED):
        found = run(probe, None)["out"].reshape(-1, len(measured))[ROWS[name]]
    assert np.array_equal(found, measured)
