"""The functions that the hardware approximates, behind one object that measured tables can take the place of.

The defaults are computed in f64 and rounded to f32, so their error is at most 0.5 ulp (plus the flushing that `.ftz` asks for):
nearer to the true value than what the hardware gives. PTX ISA 9.7.3 promises, for f32:

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
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
Function = Callable[[Array], Array]


def exactly(function: Function) -> Function:
    """A function of f64 as one of f32, rounded to nearest; f64 stays f64."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


@dataclass(frozen=True)
class Approximations:
    """Functions of arrays of f32, of any shape. Subnormals are flushed, where the opcode says so, by the caller."""

    ex2: Function = exactly(np.exp2)
    lg2: Function = exactly(np.log2)
    rcp: Function = exactly(np.reciprocal)
    sqrt: Function = exactly(np.sqrt)
    rsqrt: Function = exactly(lambda x: 1 / np.sqrt(x))
    sin: Function = exactly(np.sin)
    cos: Function = exactly(np.cos)
    tanh: Function = exactly(np.tanh)


FAST = Approximations(ex2=np.exp2, lg2=np.log2, rcp=np.reciprocal, sqrt=np.sqrt, sin=np.sin, cos=np.cos, tanh=np.tanh)
current = FAST


@contextmanager
def using(table: Approximations) -> Iterator[None]:
    """Let all kernels of this process use a table meanwhile."""
    global current
    before, current = current, table
    try:
        yield
    finally:
        current = before
