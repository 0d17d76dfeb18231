"""Tensors by name: how an element of one is read, for help lines."""

from attnspec.language.expr import Expr, Name
from attnspec.language.linear import INDEX_SIZE
from attnspec.language.spec import Tensor

_INDEX_OF = {size: index for index, size in INDEX_SIZE.items()}


def example_read(tensor: Tensor) -> str:
    """`bias[h, q, kv]` for a tensor of shape [heads, len_q, len_kv]; `...` where no index has the axis's size."""
    indices = [_INDEX_OF[size.name] if isinstance(size, Name) else "..." for size in tensor.shape]
    return f"{tensor.name}[{', '.join(indices)}]"


def example_shape(tensor: Tensor, indices: tuple[Expr, ...]) -> str:
    """`bias: f32[heads, len_q, len_kv]` for a tensor that is read as bias[h, q, kv]."""
    sizes = [INDEX_SIZE.get(index.name, "...") if isinstance(index, Name) else "..." for index in indices]
    return f"{tensor.name}: {tensor.dtype}[{', '.join(sizes)}]"


def count_axes(tensor: Tensor) -> str:
    """`1 axis`, `3 axes`."""
    return f"{len(tensor.shape)} {'axis' if len(tensor.shape) == 1 else 'axes'}"
