"""tanh.approx.f32 of an H200, by its answers: the unit takes an argument's upper 17 to 21 bits of mantissa, octave by octave, and
no formula is known for what it makes of them. tanh.npz has, for each octave, the first result and the steps from one argument
that it tells apart to the next, compressed; that the results are the GPU's for every argument, tests/emulator/silicon says.
"""

import functools
import lzma
import pathlib

import numpy as np

TABLE = pathlib.Path(__file__).parent / "tanh.npz"
ONE, INFINITY, NAN = 0x3F800000, 0x7F800000, 0x7FFFFFFF
OCTAVE = 23  # bits
STEPS = {1: np.int8, 2: np.int16}


@functools.cache
def octaves() -> dict[int, np.ndarray]:
    """Results of the arguments that are told apart, by the octave's exponent field."""
    found = {}
    with np.load(TABLE) as stored:
        for name in stored.files:
            packed = stored[name]
            first, width = int(packed[:4].view(np.uint32)[0]), int(packed[4])
            steps = np.frombuffer(lzma.decompress(packed[5:].tobytes()), STEPS[width])
            found[int(name)] = np.concatenate(([first], first + np.cumsum(steps, dtype=np.int64))).astype(np.uint32)
    return found


def pack(results: np.ndarray) -> np.ndarray:
    """What is stored of an octave: results (2^n,) of the arguments that are told apart."""
    steps = np.diff(results.astype(np.int64))
    width = 1 if np.abs(steps).max() < 128 else 2
    squeezed = lzma.compress(steps.astype(STEPS[width]).tobytes(), preset=9 | lzma.PRESET_EXTREME)
    return np.frombuffer(np.uint32(results[0]).tobytes() + bytes([width]) + squeezed, np.uint8)


def tanh(bits: np.ndarray) -> np.ndarray:
    """f32 bits to f32 bits. Below the table's octaves tanh gives its argument, above them 1."""
    bits = np.asarray(bits).astype(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    exponent = magnitude >> np.uint32(OCTAVE)
    table = octaves()
    result = np.where(exponent > max(table), np.uint32(ONE), magnitude)
    for octave in np.unique(exponent).tolist():
        if octave in table:
            here = exponent == octave
            known = table[octave]
            step = OCTAVE - (len(known).bit_length() - 1)
            result[here] = known[(magnitude[here] & np.uint32((1 << OCTAVE) - 1)) >> np.uint32(step)]
    return np.where(magnitude > INFINITY, np.uint32(NAN), result | bits & np.uint32(0x80000000))
