"""Operand bytes and accumulators of the matrix products, by kind of difficulty."""

import numpy as np

from tests.emulator.silicon.operands import moderate_floats, words

# kind: element bytes, exponent bits, mantissa bits kept in the element, bias
FORMATS = {"bf16": (2, 8, 7, 127), "f16": (2, 5, 10, 15), "tf32": (4, 8, 23, 127), "e4m3": (1, 4, 3, 7), "e5m2": (1, 5, 2, 15)}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}
# values: exponents of the left and right operand, as (lowest, highest) powers of two; clipped to the format
EXPONENTS = {
    "normal": ((-2, 2), (-2, 2)),
    "wide": ((-20, 20), (-20, 20)),
    "tiny": ((-76, -64), (-72, -62)),
    "special": ((-2, 2), (-2, 2)),
    "cancel": ((-6, 6), (-1, 1)),
    "huge": ((61, 65), (61, 63)),
    "subnormal": ((-127, -120), (90, 118)),
}


def encode_integers(kind: str, whole: np.ndarray) -> np.ndarray:
    """Bits of small integers (0..8 in magnitude), exact in every format."""
    size, _, mantissa, bias = FORMATS[kind]
    magnitude = np.abs(whole)
    exponent = np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int64)
    fraction = np.round((magnitude / 2.0**exponent - 1) * 2**mantissa).astype(np.int64)
    bits = np.where(magnitude == 0, 0, ((exponent + bias) << mantissa) + fraction) | (whole < 0).astype(np.int64) << (
        8 * size - 1
    )
    return bits.astype(UNSIGNED[size])


def draw(kind: str, count: int, exponents: tuple[int, int], seed: int) -> np.ndarray:
    """Random signs and mantissas, exponents evenly from a range (field 0, the subnormals, included when clipped to it)."""
    size, width, mantissa, bias = FORMATS[kind]
    low, high = (min(max(e + bias, 0), 2**width - 2) for e in exponents)
    bits = words(seed, count).astype(np.int64)
    field = low + words(seed + 1, count).astype(np.int64) % (high - low + 1)
    return ((bits >> 31 << (8 * size - 1)) | (field << mantissa) | (bits & (2**mantissa - 1))).astype(UNSIGNED[size])


def elements(values: str, kind: str, nbytes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Left and right images of `nbytes`; in "cancel" neighbouring products nearly cancel (neighbours along K)."""
    size, width, mantissa, _ = FORMATS[kind]
    count = nbytes // size
    if values == "integers":
        return tuple(encode_integers(kind, words(s, count).astype(np.int64) % 17 - 8) for s in (seed, seed + 1))  # type: ignore[return-value]
    left, right = (draw(kind, count, e, seed + 10 * i) for i, e in enumerate(EXPONENTS[values]))
    if values == "cancel":
        left[1::2] = left[::2] ^ (words(seed + 3, count // 2) % 8 == 0).astype(left.dtype)
        right[1::2] = right[::2] ^ right.dtype.type(1 << (8 * size - 1))
    if values == "special":
        rate = words(seed + 4, count)
        for image, shift in ((left, 0), (right, 9)):
            chosen = (rate >> shift) & 0x1FF
            top = (2**width - 1) << mantissa
            image[chosen == 0] = top
            image[chosen == 1] = top | 1 << (8 * size - 1)
            image[chosen == 2] = top | 1
    return left, right


def accumulators(values: str, count: int, seed: int) -> np.ndarray:
    """Bits of the f32 starting values."""
    if values == "integers":
        return (words(seed, count).astype(np.int64) % 65 - 32).astype(np.float32).view(np.uint32)
    if values in ("tiny", "subnormal"):
        return words(seed, count) & np.uint32(0x81FFFFFF)
    if values == "huge":
        return (words(seed, count) & np.uint32(0x80FFFFFF)) | np.uint32(0x7E000000)
    start = moderate_floats(seed, count, {"wide": 40, "cancel": 20}.get(values, 4))
    if values == "special":
        chosen = words(seed + 1, count) % 64
        start = np.where(chosen == 0, 0x7F800000, np.where(chosen == 1, 0xFF800000, np.where(chosen == 2, 0x7FABCDEF, start)))
    if values == "cancel":
        start = np.where(words(seed + 2, count) % 2 == 0, 0, start)
    return start.astype(np.uint32)
