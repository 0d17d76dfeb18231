"""The end of a row: what its output is divided by, and its log-sum-exp."""

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


def normalise(to_log2: float, own_sink: Any, row_sum: Float32, row_max: Float32) -> tuple[Float32, Float32]:
    """Factor for the row of O, and its log-sum-exp in natural log (-inf for a row that sees nothing and has no sink).

    own_sink: the logit that joins the row's denominator, natural units, or None.
    """
    peak = row_max * to_log2
    if own_sink is None:
        is_empty = row_sum == Float32(0.0)
        scale = Float32(cutlass.select_(is_empty, Float32(0.0), Float32(1.0) / row_sum))
        lse = log_sum(row_max, to_log2, row_sum)
        return scale, Float32(cutlass.select_(is_empty, -Float32.inf, lse))
    sink = own_sink * LOG2_E
    top = cute.arch.fmax(peak, sink)
    own = cute.math.exp2(peak - top, fastmath=True)
    total = row_sum * own + cute.math.exp2(sink - top, fastmath=True)
    is_empty = top == -Float32.inf
    scale = Float32(cutlass.select_(is_empty, Float32(0.0), own / total))
    lse = cutlass.select_(peak >= sink, log_sum(row_max, to_log2, total), log_sum(own_sink, LOG2_E, total))
    return scale, Float32(cutlass.select_(is_empty, -Float32.inf, Float32(lse)))


def log_sum(peak: Float32, to_log2: float, total: Float32) -> Float32:
    """ln(exp(peak) * total), `total` summed relative to the rounded peak * to_log2; to_log2: a multiple of log2(e).

    What that rounding lost is added again: at scores of -65536 it is 2^-8, and the log-sum-exp has finer steps.
    """
    factor = Float32(to_log2)
    lost = _fused(peak, factor, -(peak * factor))
    return _fused(cute.math.log2(total) - lost, Float32(LN_2), peak * Float32(to_log2 * LN_2))


def _fused(left: Float32, right: Float32, addend: Float32) -> Float32:
    """left * right + addend, rounded once."""
    return ptx("fma.rn.f32 {$w0}, {$r0}, {$r1}, {$r2};", left, right, addend, returns=[Float32])
