"""What atomics and reductions make of the words in memory and those that come. PTX ISA 9.7.13.5 (atom), 9.7.9.25.5 (bulk)."""

from typing import Any

import numpy as np
from attnspec.emulator.numerics.faithful import CANONICAL_NAN
from attnspec.emulator.translate import arithmetic, half

Array = Any
OPERATIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "exch": lambda old, new: new, "inc": lambda old, limit: np.where(old >= limit, 0, old + 1),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1),
    "cas": lambda old, wanted, new: np.where(old == wanted, new, old),
}  # fmt: skip
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
LOGIC = ("and", "or", "xor", "exch", "cas")


def combine(operation: str, type: str, old: Array, *values: Array, flushes: bool = False) -> Array:
    """The new words; all are unsigned integers as wide as the type. flushes: f32 subnormals become zero of their sign (PTX ISA:
    atom and red in global memory; bulk reductions keep them on an H200)."""
    if operation in LOGIC:
        return OPERATIONS[operation](old, *values)
    if type in HALVES:
        return half.apply(operation, type, (), old, *values)
    dtype = {"f32": np.float32, "f64": np.float64}.get(type) or np.dtype(f"{'i' if type[0] == 's' else 'u'}{old.itemsize}")
    seen = [one.view(dtype) for one in (old, *values)]
    if flushes and type == "f32":
        seen = [arithmetic.flush(one) for one in seen]
    result = OPERATIONS[operation](*seen).astype(dtype, copy=False)
    if type == "f32" and operation == "add":
        result = np.where(np.isnan(result), CANONICAL_NAN, arithmetic.flush(result) if flushes else result)
    return result.view(old.dtype)
