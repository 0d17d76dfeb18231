"""A spec as text in which only what changes its meaning is left: the part of a cache key that stands for the variant.

Names of the variant, constants, tensors and values are gone (tensors are numbered in order), as are places in the file.
Two files that differ in names, spacing, comments, or in how a constant was given, are one.
"""

from attnspec.language.expr import Expr, Read, Search, children, field_names, nodes
from attnspec.language.spec import Spec, Tensor


def canonical(spec: Spec) -> str:
    """The text."""
    numbers = {tensor.name: f"t{number}" for number, tensor in enumerate(spec.tensors)}
    rows = [
        f"head_dim {spec.head_dim} {spec.head_dim_v}",
        f"group {spec.group}",
        f"dtype {spec.dtype}",
        f"varlen {spec.is_varlen}",
        *(f"{numbers[tensor.name]}: {canonical_tensor(tensor, numbers)}" for tensor in spec.tensors),
        f"scale {canonical_expr(spec.scale, numbers)}",
        f"score {canonical_expr(spec.score, numbers)}",
        f"mask {canonical_expr(spec.mask, numbers)}",
        f"sink {canonical_expr(spec.sink, numbers)}",
    ]
    return "\n".join(rows)


def canonical_tensor(tensor: Tensor, numbers: dict[str, str]) -> str:
    """A declaration without its name."""
    shape = ", ".join(canonical_expr(extent, numbers) for extent in tensor.shape)
    low, high = canonical_expr(tensor.low, numbers), canonical_expr(tensor.high, numbers)
    return f"{tensor.dtype}[{shape}] learned={tensor.is_learned} range={low}..{high} sorted={tensor.is_sorted}"


def canonical_expr(expr: Expr | None, numbers: dict[str, str]) -> str:
    """Distinct nodes in order, each by its fields and the numbers of its operands."""
    if expr is None:
        return "none"
    order = {at: number for number, at in enumerate(nodes(expr))}
    return "; ".join(f"{number}={canonical_node(at, order, numbers)}" for at, number in order.items())


def canonical_node(at: Expr, order: dict[Expr, int], numbers: dict[str, str]) -> str:
    """One node."""
    operands = [str(order[child]) for child in children(at)]
    plain = []
    for name in field_names(at):
        value = getattr(at, name)
        if isinstance(value, str | int | float) and not isinstance(value, Expr):
            is_tensor = name == "tensor" and isinstance(at, Read | Search)
            plain.append(numbers[str(value)] if is_tensor else repr(value))
    return f"{type(at).__name__}({' '.join(plain)})({' '.join(operands)})"
