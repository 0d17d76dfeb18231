"""The functions that the hardware approximates, behind one object that measured tables can take the place of.

`EXACT` is computed in f64 and rounded to f32, so its error is at most 0.5 ulp (plus the flushing that `.ftz` asks for): nearer to
the true value than what the hardware gives. `FAST`, the default, takes numpy's f32 functions where those are within 2 ulp.
`using(table)` puts another in place. PTX ISA 9.7.3 promises, for f32:

| function | error of the hardware |
| --- | --- |
| ex2.approx | 2 ulp over the full range (2^-22 relative) |
| lg2.approx | 2^-22 absolute where the argument is in (0.5, 2), else 2^-22 relative |
| rcp.approx | 1 ulp |
| rsqrt.approx | 2^-22.9 relative |
| sqrt.approx | 2^-23 relative |
| div.approx, div.full | 2 ulp; .approx is 0 for divisors of 2^126 to 2^128 |
| sin.approx, cos.approx | 2^-20.5 absolute in [-pi, pi] |
| tanh.approx | 2^-11 relative |
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = Any
Function = Callable[[Array], Array]


def exactly(function: Function) -> Function:
    """A function of f64 as one of f32, rounded to nearest; f64 stays f64."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


@dataclass(frozen=True)
class Approximations:
    """Functions of arrays of f32, of any shape. Subnormals are flushed, where the opcode says so, by the caller. half: ex2 and
    tanh of f16 or bf16 codes (u16), by name, codes and format; None: as of f32, rounded. quotient: div.full (True) and div.approx
    of f32; None: exact."""

    ex2: Function
    lg2: Function
    rcp: Function
    sqrt: Function
    rsqrt: Function
    sin: Function
    cos: Function
    tanh: Function
    half: Callable[[str, Array, str], Array] | None = None
    quotient: Callable[[Array, Array, bool], Array] | None = None


EXACT = Approximations(
    exactly(np.exp2),
    exactly(np.log2),
    exactly(np.reciprocal),
    exactly(np.sqrt),
    exactly(lambda x: 1 / np.sqrt(x)),
    exactly(np.sin),
    exactly(np.cos),
    exactly(np.tanh),
)
# numpy's own of f32: within 1 or 2 ulp, and faster.
FAST = replace(EXACT, ex2=np.exp2, lg2=np.log2, rcp=np.reciprocal, sqrt=np.sqrt, tanh=np.tanh)
current = FAST


def divide(a: Array, b: Array, full: bool) -> Array:
    """f32 a / b as div.full or div.approx."""
    return a / b if current.quotient is None else current.quotient(a, b, full)


@contextmanager
def using(table: Approximations) -> Iterator[None]:
    """Let all kernels of this process use a table meanwhile."""
    global current
    before, current = current, table
    try:
        yield
    finally:
        current = before
