"""Tensors by name: how an element of one is read, for help lines."""

from attnspec.language.expr import Name
from attnspec.language.linear import INDEX_SIZE
from attnspec.language.spec import Tensor

_INDEX_OF = {size: index for index, size in INDEX_SIZE.items()}


def example_read(tensor: Tensor) -> str:
    """`bias[h, q, kv]` for a tensor of shape [heads, len_q, len_kv]; `...` where no index has the axis's size."""
    indices = [_INDEX_OF[size.name] if isinstance(size, Name) else "..." for size in tensor.shape]
    return f"{tensor.name}[{', '.join(indices)}]"
