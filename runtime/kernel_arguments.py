"""What a GPU kernel's host function takes: a checked call's tensors and the places of its sequences."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from attnspec.runtime.call import Call
from torch import Tensor

TENSOR_STEP = 16  # elements that the width of a value is padded to inside a kernel
GIVEN = 5  # arguments before the variant's tensors: q, k, v, out, lse
BOX_BYTES = 16  # what rows of a tensor of which TMA takes boxes start at multiples of


def empty_results(call: Call, width_v: int) -> tuple[Tensor, Tensor]:
    """Room for out and lse."""
    q = call.q
    *rows, heads, _ = q.shape
    lse = (heads, *rows) if call.layout.is_packed else (rows[0], heads, rows[1])
    return q.new_empty((*rows, heads, width_v)), q.new_empty(lse, dtype=torch.float32)


def forward_arguments(call: Call, out: Tensor, lse: Tensor, parts: int | None = 1, boxed: Sequence[bool] = ()) -> tuple[Any, ...]:
    """Arguments of `forward`, but for the multiprocessors and the stream. Packed tensors are a batch of one.

    parts: work tiles that share out the keys of a row; None for a kernel that has no such. boxed: see `declared_arguments`.
    """
    q, k, v, tensors = call[:4]
    declared = declared_arguments(tensors, boxed)
    arrays = (q, k, v, out, lse)
    if call.layout.is_packed:
        arrays = tuple(array.unsqueeze(0) for array in arrays)
    shared = () if parts is None else (*scratch_of_parts(out, parts), parts)
    return *arrays, *declared, *places(call), *shared


def scratch_of_parts(out: Tensor, parts: int) -> tuple[Tensor, Tensor]:
    """Room for the products, and for the maximum and sum, of every part of every row; none is needed for one part."""
    if parts == 1:
        return no_scratch(out.device)
    *rows, width = out.shape
    count = math.prod(rows) * parts
    numbers = (count * -(-width // TENSOR_STEP) * TENSOR_STEP, count * 2)
    first, second = (torch.empty(max(1, number), dtype=torch.float32, device=out.device) for number in numbers)
    return first, second


@cache
def no_scratch(device: torch.device) -> tuple[Tensor, Tensor]:
    """What stands for scratch that is not looked at, made once for a device."""
    return torch.empty(1, dtype=torch.float32, device=device), torch.empty(1, dtype=torch.float32, device=device)


def places(call: Call) -> tuple[Any, ...]:
    """Where the sequences of a call are: their starts where packed, else the place of a part in the whole."""
    if call.layout.is_packed:
        return starts(call)
    part = call.layout.segments[0]
    return part.q_offset, part.kv_offset, part.len_q, part.len_kv


def starts(call: Call) -> tuple[Tensor, Tensor]:
    """Starts of the packed sequences in q and in k, and the ends, where the tensors are."""
    if call.starts is not None:
        return call.starts
    segments = call.layout.segments
    rows, keys = [0], [0]
    for one in segments:
        rows.append(rows[-1] + one.count_q)
        keys.append(keys[-1] + one.count_kv)
    device = call.q.device
    return torch.tensor(rows, dtype=torch.int32, device=device), torch.tensor(keys, dtype=torch.int32, device=device)


def declared_arguments(tensors: Sequence[Tensor], boxed: Sequence[bool]) -> tuple[Tensor, ...]:
    """The variant's tensors as the kernel takes them. boxed: of which TMA takes boxes; none for no such."""
    if not boxed:
        return tuple(map(as_argument, tensors))
    found = map(as_argument, tensors)
    return tuple(as_boxed(tensor) if is_boxed else tensor for tensor, is_boxed in zip(found, boxed, strict=True))


def boxed_of(manifest: Mapping[str, Any], count: int) -> tuple[bool, ...]:
    """Of the `count` declared tensors of a forward, those of which TMA takes boxes; none where there is no such."""
    rows = manifest["arguments"][GIVEN : GIVEN + count]
    found = tuple(row.get("boxed", False) for row in rows)
    return found if any(found) else ()


def as_boxed(tensor: Tensor) -> Tensor:
    """The same tensor, if TMA can take boxes of it: rows without gaps, each from a multiple of 16 bytes on; else a copy."""
    step = BOX_BYTES // tensor.element_size()
    *strides, last = tensor.stride()
    if last == 1 and not any(stride % step for stride in strides) and all(strides) and tensor.data_ptr() % BOX_BYTES == 0:
        return tensor
    *sizes, width = tensor.shape
    room = tensor.new_zeros((*sizes, -(-width // step) * step))[..., :width]
    return room.copy_(tensor)


def as_argument(tensor: Tensor) -> Tensor:
    """A declared tensor as the kernel takes it: a scalar as one element, truth values as bytes.

    A tensor without elements reads as 0 (a length of 0 may have ranges that depend on it); a kernel clamps every index, and
    needs an element to clamp it to.
    """
    tensor = tensor.detach()
    if not tensor.numel():
        tensor = tensor.new_zeros([max(1, size) for size in tensor.shape])
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
