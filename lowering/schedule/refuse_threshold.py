"""A rescale threshold that the type of P cannot hold: a row's maximum may lag by it, so that P grows to 2^threshold."""

import math

from attnspec.lowering.schedule.refusal import ScheduleError

from attnspec.language.spec import DType

# Log2 of the largest finite number of each type that P may have; those of 8 bits are not made yet.
LARGEST_LOG2 = {
    "bf16": math.log2((2 - 2**-7) * 2.0**127),
    "fp16": math.log2(65504.0),
    "e5m2": math.log2(57344.0),
    "e4m3": math.log2(448.0),
}


def largest_threshold(dtype: DType | str, offset: float = 0.0) -> float:
    """The most that a row's maximum may lag, in log2 units. offset: by which P is moved up, in log2 units (8-bit types)."""
    return LARGEST_LOG2[dtype] - offset


def refuse_threshold(threshold: float, dtype: DType | str, offset: float = 0.0) -> None:
    """ScheduleError if a probability could be infinite, or be cut off while the row's sum is not."""
    most = largest_threshold(dtype, offset)
    if threshold > most:
        moved = f", moved up by {offset:g}" if offset else ""
        grown = f"at a threshold of {threshold:g} probabilities grow to 2^{threshold:g}{moved}"
        raise ScheduleError("rescale-threshold", f"{grown}: {dtype} holds {most:.4f} in log2 units")
