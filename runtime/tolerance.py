"""How far a right result may be from the float64 oracle: derived from dtype, lengths and scores, never a chosen constant.

A result is a sum; its magnitude (from the oracle) is the same sum with every term made positive. The error allowed is

    u16 |result|  for rounding the result to its 16-bit type (unit roundoff: bf16 2^-8, fp16 2^-11)
    u16 magnitude, for each time that factors inside the sum are rounded to 16 bits (a GPU kernel's; the reference has none)
    4 u32 ((d + 8) S + 128 + n/128) magnitude, for f32 work (u32 = 2^-24): a score of magnitude S, a dot product over d terms
         and a few operations, is off by (d + 8) u32 S at most, and exp carries that to the probability as a relative error;
         sums are kept in tiles of 128, n/128 of them. The 4 counts the score twice (numerator and denominator) and their use

and half the spacing of the type's smallest numbers; of a GPU kernel, whose exponential gives 0 where it should give less than
2^-126 (PTX ISA, ex2.approx.ftz), that much for each term of a sum, times its other factors: 2^-106 covers 2^20 of both. A GPU
kernel's tanh, and the one inside its sigmoid, is off by 2^-11 of its value at most (PTX ISA, tanh.approx.f32): what that comes to
in the variant at hand is `Answer.blur`, element by element. Where a forward's exponentials are in part a polynomial's (the
manifest's `exponential_error` e, 8.8e-5 for degree 3), allowed are

    e for the LSE; 2 e magnitude for out (probabilities, and the sum they are divided by) and for gradients, which work from both

A GPU kernel's gradient of a learned tensor is a sum of d(score) over many pairs, most of which cancel: that bound, a share of
the sum of all magnitudes, may be several times the gradient. But it is large only for the roundings of what the forward stored.
Against the gradients of *that* out and LSE (`oracle.solve(stored=...)`) no factor is rounded to 16 bits, and allowed are

    u32 |result|  for the result, u16 where the tensor is of a 16-bit type, and 16 u32 magnitude for what errs to one side:
         exp2's two last places, sums that are cut off
    4 u32 (sqrt(d + 8) S + sqrt(128 + n/128)) spread  for f32 work: independent errors add up as squares do (Higham & Mary 2019,
         doi 10.1137/18M1226312), those of a product's terms and, from row to row, those of a row's sum: `Answer.spread`
    `Answer.blur`, as above, but for what lies in the stored out and LSE

Not covered: a score within rounding of a corner (`max`, a comparison of floats), where f32 and float64 may take either side
and the slope jumps (one of 2000 random variants met one).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnspec.language.spec import DType

ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11}
SPACING = {"bf16": 2.0**-133, "fp16": 2.0**-24}  # of the smallest numbers
F32_ROUNDOFF = 2.0**-24
FLUSHED = 2.0**-106
TILE = 128
ONE_SIDED = 16
TANH = "tanh to 2^-11"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tolerance:
    """allowed error = rounding * |result| + factor * magnitude + floor, and blur if it blurs, element by element."""

    rounding: float
    factor: float
    floor: float
    blurs: bool
    reason: str

    def allowed(self, exact: Floats, magnitude: Floats, blur: Floats) -> Floats:
        """Largest error of each element."""
        size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        return self.rounding * size + self.factor * magnitude + self.floor + (blur if self.blurs else 0.0)


def tolerance(
    dtype: DType,
    head_dim: int,
    length: int,
    largest_score: float,
    *,
    roundings: int,
    stored: DType | None,
    flushes: bool = False,
    blurs: bool = False,
    exponential_error: float = 0.0,
    is_lse: bool = False,
) -> Tolerance:
    """The tolerance of one result.

    length: the longest sum, in elements. largest_score: the oracle's. roundings: to 16 bits of factors inside the sum (the
    probabilities of a GPU kernel; none in the reference). stored: the type of the result, None for f32. flushes: a GPU kernel's.
    blurs: a GPU kernel's with a tanh. exponential_error: largest relative one of its probabilities beside f32's,
    which is an absolute one of the LSE.
    """
    f32 = 4 * F32_ROUNDOFF * ((head_dim + 8) * max(1.0, largest_score) + TILE + length / TILE)
    reasons = []
    if stored is not None:
        reasons.append(f"stored in {stored} ({ROUNDOFF[stored]:.1e})")
    if roundings:
        reasons.append(f"{roundings} x {dtype} inside the sum ({roundings * ROUNDOFF[dtype]:.1e})")
    reasons.append(f"f32 over d={head_dim}, n={length}, |score| <= {largest_score:.3g} ({f32:.1e})")
    reasons += [f"exp2 by a polynomial ({exponential_error:.1e})"] if exponential_error else []
    reasons += [TANH] if blurs else []
    return Tolerance(
        rounding=ROUNDOFF[stored] if stored is not None else F32_ROUNDOFF,
        factor=roundings * ROUNDOFF[dtype] + f32 + (0.0 if is_lse else 2 * exponential_error),
        floor=max(FLUSHED if flushes else 0.0, SPACING[stored] if stored is not None else 2.0**-126, exponential_error * is_lse),
        blurs=blurs,
        reason=" + ".join(reasons),
    )


@dataclass(frozen=True)
class StoredTolerance:
    """Of a learned tensor's gradient, held against that of the stored forward. rounding: of its type; factor: of spread."""

    rounding: float
    factor: float
    floor: float
    reason: str

    def allowed(self, exact: Floats, magnitude: Floats, spread: Floats, blur: Floats) -> Floats:
        """Largest error of each element."""
        size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        return self.rounding * size + F32_ROUNDOFF * ONE_SIDED * magnitude + self.factor * spread + blur + self.floor


def tolerance_of_stored(
    head_dim: int, length: int, largest_score: float, stored: DType | None, blurs: bool = False
) -> StoredTolerance:
    """The tolerance of a learned tensor's gradient against that of the stored forward. Arguments as of `tolerance`."""
    factor = 4 * F32_ROUNDOFF * (math.sqrt(head_dim + 8) * max(1.0, largest_score) + math.sqrt(TILE + length / TILE))
    reason = f"of the stored out and lse: f32 over d={head_dim}, n={length}, |score| <= {largest_score:.3g} ({factor:.1e})"
    reason += f" + {TANH}" if blurs else ""
    if stored is None:
        return StoredTolerance(F32_ROUNDOFF, factor, FLUSHED, reason)
    floor = max(FLUSHED, SPACING[stored])
    return StoredTolerance(ROUNDOFF[stored], factor, floor, f"stored in {stored} ({ROUNDOFF[stored]:.1e}), {reason}")
