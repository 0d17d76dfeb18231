"""Values that a thread keeps in registers from one step to the next, as an array whose places are known while tracing."""

from collections.abc import Sequence
from typing import Any

import cutlass.cute as cute
from cutlass import Float32
from cutlass._mlir import ir
from cutlass._mlir.dialects import vector
from cutlass.cutlass_dsl import dsl_user_op


def array(count: int, kind: Any = Float32) -> cute.Tensor:
    """Room for so many values."""
    return cute.make_rmem_tensor((count,), kind)


@dsl_user_op
def values(kept: cute.Tensor, *, loc: Any = None) -> list[Any]:
    """What is kept, one by one."""
    kind, count = kept.element_type, cute.size(kept)
    whole = kept.load(loc=loc)
    return [kind(vector.extract(whole.ir_value(loc=loc), [], [index], loc=loc), loc=loc) for index in range(count)]


@dsl_user_op
def keep(kept: cute.Tensor, found: Sequence[Any], *, loc: Any = None) -> None:
    """Put values in the places of those before."""
    kind, count = kept.element_type, len(found)
    bare = [value.ir_value(loc=loc) for value in found]
    whole = vector.from_elements(ir.VectorType.get([count], kind.mlir_type), bare, loc=loc)
    kept.store(cute.TensorSSA(whole, (count,), kind), loc=loc)


def fill(kept: cute.Tensor, value: Any) -> None:
    """The same value in every place."""
    keep(kept, [kept.element_type(value)] * cute.size(kept))
