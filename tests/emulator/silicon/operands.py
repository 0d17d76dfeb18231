"""Inputs of the probes: edge cases and hashed bits, the same on every machine and numpy version."""

import numpy as np

FLOAT_EDGES = np.array(
    [
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00400000, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800001,
        0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x40490FDB, 0xC0200000, 0x3F000000, 0x4B000001, 0x7F7FFFFF,
        0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345,
    ],
    dtype=np.uint32,
)  # fmt: skip
CONVERSION_EDGES = np.array(
    [
        0x3F808000, 0x3F818000, 0x3F808001, 0x3F801000, 0x3F803000, 0x3F801001, 0x477FE000, 0x477FEFFF, 0x477FF000,
        0x477FFFFF, 0x47800000, 0x7F7F8000, 0x7F7F7FFF, 0x33000000, 0x33000001, 0x33800000, 0x38800000, 0x387FFFFF,
        0x387FE000, 0x38000000, 0x4EFFFFFF, 0x4F000000, 0x4F000001, 0xCF000000, 0xCF000001, 0x4F7FFFFF, 0x4F800000,
        0x5F000000, 0xDF000000, 0x5F800000, 0x3FC00000, 0x40200000, 0xBFC00000, 0xBF000001, 0x43E00000, 0x43E80000,
        0x43E7FFFF, 0x47600000, 0x47680000, 0x4B7FFFFF, 0x42FE0000, 0x43000000, 0x437F0000, 0x437F8000, 0xC3008000,
        0x0000FFFF, 0x00008000, 0x00018000,
    ],
    dtype=np.uint32,
)  # fmt: skip
INTEGER_EDGES = np.array(
    [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE,
     0x3210, 0x0123, 0xBA98, 0x12345678, 0xF0F0F0F0],
    dtype=np.uint32,
)  # fmt: skip


def scramble(seed: int, count: int) -> np.ndarray:
    """`count` 64-bit words of splitmix64 started at `seed`."""
    with np.errstate(over="ignore"):
        word = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))


def words(seed: int, count: int) -> np.ndarray:
    return (scramble(seed, count) >> np.uint64(32)).astype(np.uint32)


def moderate_floats(seed: int, count: int, spread: int = 12) -> np.ndarray:
    """Bits of floats of either sign with magnitudes of 2**-spread up to 2**spread."""
    bits = words(seed, count)
    exponent = (127 - spread + (bits >> 23) % (2 * spread)).astype(np.uint32)
    return (bits & np.uint32(0x807FFFFF)) | (exponent << np.uint32(23))


def float_triples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every pair of edges, then random ones; the third operand often nearly cancels the product of the others."""
    edges = FLOAT_EDGES
    first, second = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    rest = count - len(first)
    wild = words(seed, rest)
    first = np.concatenate([first, np.where(np.arange(rest) % 3 == 0, wild, moderate_floats(seed + 1, rest))])
    near = (first[-rest:] ^ np.uint32(0x80000000)) + (words(seed + 2, rest) & np.uint32(3))
    second = np.concatenate([second, np.where(np.arange(rest) % 4 == 1, near, moderate_floats(seed + 3, rest))])
    with np.errstate(all="ignore"):
        product = -(first.view(np.float32) * second.view(np.float32))
    third = np.where(np.arange(count) % 2 == 0, product.view(np.uint32), edges[words(seed + 4, count) % len(edges)])
    third = np.where(np.arange(count) % 8 == 3, moderate_floats(seed + 5, count, 30), third)
    return first.astype(np.uint32), second.astype(np.uint32), third.astype(np.uint32)


def integer_triples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges = INTEGER_EDGES
    first, second = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    rest = count - len(first)
    first = np.concatenate([first, words(seed, rest)])
    second = np.concatenate([second, words(seed + 1, rest) >> (words(seed + 2, rest) % 32)])
    third = np.where(np.arange(count) % 3 == 0, edges[words(seed + 3, count) % len(edges)], words(seed + 4, count))
    return first.astype(np.uint32), second.astype(np.uint32), third.astype(np.uint32)


def conversion_operands(count: int, seed: int) -> np.ndarray:
    signed = np.concatenate([CONVERSION_EDGES, CONVERSION_EDGES ^ np.uint32(0x80000000), FLOAT_EDGES])
    rest = count - len(signed)
    spread = np.where(np.arange(rest) % 2 == 0, moderate_floats(seed, rest, 34), moderate_floats(seed + 1, rest, 10))
    halves = np.where(np.arange(rest) % 5 == 0, spread & np.uint32(0xFFFF8000), spread)
    return np.concatenate([signed, halves]).astype(np.uint32)


def every_exponent(per_binade: int, seed: int) -> np.ndarray:
    """Both signs, all 256 exponent fields, `per_binade` mantissas each (the first two are 0 and all ones)."""
    head = np.arange(512, dtype=np.uint32) << np.uint32(23)
    mantissa = words(seed, 512 * per_binade).reshape(512, per_binade) & np.uint32(0x7FFFFF)
    mantissa[:, 0], mantissa[:, 1] = 0, 0x7FFFFF
    return (head[:, None] | mantissa).reshape(-1).astype(np.uint32)
