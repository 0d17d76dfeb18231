"""Checks of a call's declared tensors, the `input` and `learned` ones given by keyword."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from attnspec.backends.layout import Layout
from attnspec.runtime.arguments import DTYPES, check_plain
from attnspec.runtime.integers import check_integers, extent_at, written
from attnspec.runtime.range_ends import ends_at
from attnspec.runtime.tracing import is_transformed
from torch import Tensor as TorchTensor

from attnspec.errors import ArgumentError
from attnspec.language.intervals import ANY
from attnspec.language.spec import Spec, Tensor

INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
WIDER = {torch.float32: (torch.bfloat16, torch.float16)}  # dtypes that convert to it without rounding


def check_declared(spec: Spec, given: Mapping[str, Any], layout: Layout, device: torch.device) -> tuple[TorchTensor, ...]:
    """A tensor a declaration, of the declared dtype and shape, in the order of the file."""
    found = take_declared(spec, given, device)
    check_arrays(spec, found, layout)
    return found


def take_declared(spec: Spec, given: Mapping[str, Any], device: torch.device) -> tuple[TorchTensor, ...]:
    """What was given by keyword as a tensor a declaration, of its dtype. Nothing of what it does stops a compiler's trace."""
    if len(given) != len(spec.tensors) or any(tensor.name not in given for tensor in spec.tensors):
        refuse_names(spec, given)
    return tuple([take_one(tensor, given[tensor.name], device) for tensor in spec.tensors])


def refuse_names(spec: Spec, given: Mapping[str, Any]) -> None:
    """ArgumentError for names too many or too few."""
    wanted = {tensor.name: tensor for tensor in spec.tensors}
    for name in given:
        if name not in wanted:
            raise ArgumentError(f"{name}: {spec.name} declares no such tensor{hint(name, list(wanted))}")
    missing = [name for name in wanted if name not in given]
    needs = ", ".join(f"{name}: {declaration(wanted[name])}" for name in missing)
    raise ArgumentError(f"missing keyword argument{'s' * (len(missing) > 1)}: {needs} ({spec.name} declares it)")


def check_arrays(spec: Spec, arrays: Sequence[TorchTensor], layout: Layout) -> None:
    """Shapes and strides at a call's sizes, and what can be looked at of the values."""
    sizes = sizes_of(layout)
    for tensor, array in zip(spec.tensors, arrays, strict=True):
        check_shape(tensor, array, sizes)
        if array.dim() and array.shape[-1] > 1 and array.stride(-1) != 1:
            rule = "the last axis must have stride 1; call .contiguous()"
            raise ArgumentError(f"{tensor.name}: stride {array.stride(-1)} in the last axis: {rule}")
    check_values(spec, arrays, layout)


def check_values(spec: Spec, arrays: Sequence[TorchTensor], layout: Layout) -> None:
    """What rests on values: declared ranges and order, and that no int leaves 32 bits.

    On a GPU values are trusted: looking would wait.
    """
    sizes = sizes_of(layout)
    for tensor, array in zip(spec.tensors, arrays, strict=True):
        check_range(tensor, array, sizes)
        check_sorted(tensor, array)
    check_overflow(spec, layout, sizes, {tensor.name: array for tensor, array in zip(spec.tensors, arrays)})


def rests_on_values(spec: Spec) -> bool:
    """Whether a call with the same shapes and other values may be wrong."""
    return any(tensor.is_sorted or tensor.low is not None or tensor.dtype == "i32" for tensor in spec.tensors)


def hint(name: str, names: list[str]) -> str:
    """What the person may have meant."""
    close = get_close_matches(name, names, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; it declares {', '.join(names)}" if names else "; it declares none"


def declaration(tensor: Tensor) -> str:
    """A declaration's type, as it was written."""
    shape = f"[{', '.join(written(extent) for extent in tensor.shape)}]" if tensor.shape else ""
    return f"{tensor.dtype}{shape}"


def sizes_of(layout: Layout) -> dict[str, int]:
    """Sizes that shapes are given in; packed, the lengths are those of the longest sequence (no shape can use them)."""
    return {
        "batch": layout.batch,
        "heads": layout.heads,
        "kv_heads": layout.kv_heads,
        "len_q": layout.len_q,
        "len_kv": layout.len_kv,
    }


def take_one(tensor: Tensor, value: Any, device: torch.device) -> TorchTensor:
    """One tensor, converted if that changes no value."""
    array = scalar(tensor, value, device) if isinstance(value, bool | int | float) else value
    if not isinstance(array, TorchTensor):
        raise ArgumentError(f"{tensor.name}: a torch.Tensor is wanted, got {type(value).__name__}")
    check_plain(tensor.name, array)
    if array.device != device:
        raise ArgumentError(f"{tensor.name}: on {array.device}, but q is on {device}")
    return array if array.dtype == DTYPES[tensor.dtype] else convert(tensor, array)


def scalar(tensor: Tensor, value: bool | int | float, device: torch.device) -> Any:
    """A Python number for a declared scalar."""
    if tensor.shape:
        return value
    kind = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64
    if tensor.dtype in ("f32", "bf16", "fp16") and not isinstance(value, bool):
        kind = DTYPES[tensor.dtype]
    if tensor.dtype == "i32" and kind == torch.int64:
        if not -(2**31) <= value < 2**31:
            raise ArgumentError(f"{tensor.name}: {value} does not fit in i32")
        kind = torch.int32
    return torch.full((), value, dtype=kind, device=device)  # not torch.tensor: on a GPU that would copy from the host


def check_shape(tensor: Tensor, array: TorchTensor, sizes: Mapping[str, int]) -> None:
    """The declared extents at this call's sizes."""
    wanted = tuple(extent_at(extent, sizes) for extent in tensor.shape)
    found = tuple(array.shape)
    if found != wanted:
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ArgumentError(f"{tensor.name}: shape {found}, declared {declaration(tensor)}, which is {wanted} at {at}")


def convert(tensor: Tensor, array: TorchTensor) -> TorchTensor:
    """The tensor in its declared dtype; an error if a value would change, or a bool would pass for a number."""
    wanted = DTYPES[tensor.dtype]
    if array.dtype == wanted or array.dtype in WIDER.get(wanted, ()):
        return array.to(wanted)
    if wanted == torch.int32 and array.dtype in INTS:
        if can_look(array) and array.numel() and (array.min() < -(2**31) or array.max() > 2**31 - 1):
            raise ArgumentError(f"{tensor.name}: {array.dtype} values {int(array.min())}..{int(array.max())} do not fit in i32")
        return array.to(wanted)
    why = "converting would lose precision" if array.is_floating_point() else "a conversion would guess at what was meant"
    if array.dtype == torch.bool:
        why = "true would be added as 1, which hides nothing: a mask is a `mask` statement on a bool tensor"
    raise ArgumentError(f"{tensor.name}: dtype {array.dtype}, declared {tensor.dtype}: {why}")


def can_look(array: TorchTensor) -> bool:
    """Whether values are at hand: not on a GPU, where looking would wait, nor where a compiler traces."""
    return array.device.type == "cpu" and not torch.compiler.is_compiling() and not is_transformed(array)


def check_range(tensor: Tensor, array: TorchTensor, sizes: Mapping[str, int]) -> None:
    """Declared range, its ends rounded to the tensor's type. NaN is in every one: the rows that see it are NaN, as is told."""
    ends = ends_at(tensor, sizes) if can_look(array) else None
    if ends is None or not array.numel():
        return
    low, high = torch.tensor(ends, dtype=array.dtype)
    outside = (array < low) | (array > high)
    if bool(outside.any()):
        place = outside.nonzero()[0].tolist()
        where = f" at {place}" if place else ""
        text = f"{written(tensor.low)}..{written(tensor.high)}" if tensor.low and tensor.high else ""
        shown = "" if text == f"{ends[0]}..{ends[1]}" else f", which is {ends[0]}..{ends[1]} here"
        value = array[tuple(place)].item()
        found = f"{value:g}" if isinstance(value, float) else value
        raise ArgumentError(f"{tensor.name}: {found}{where}, declared `in {text}`{shown}")


def check_sorted(tensor: Tensor, array: TorchTensor) -> None:
    """Declared order."""
    if tensor.is_sorted and can_look(array) and array.shape[-1] > 1 and bool((array.diff(dim=-1) < 0).any()):
        raise ArgumentError(f"{tensor.name}: declared `sorted`, but its values fall along the last axis")


def check_overflow(spec: Spec, layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, TorchTensor]) -> None:
    """No int of the variant's expressions leaves 32 bits at these sizes and values."""
    exprs = [expr for expr in (spec.score, spec.mask, spec.sink, spec.scale) if expr is not None]
    if not layout.segments:
        return
    ranges = {name: (size, size) for name, size in sizes.items()} | index_ranges(layout)

    def values(name: str) -> tuple[int, int]:
        tensor, array = spec.tensor(name), arrays[name]
        if tensor.low is not None and tensor.high is not None:
            low, high = ends_at(tensor, sizes) or ANY
            return int(low), int(high)
        if not can_look(array):
            return 0, 0
        return (int(array.min()), int(array.max())) if array.numel() else (0, 0)

    check_integers(exprs, ranges, values, ", ".join(f"{name}={size}" for name, size in sizes.items()))


def index_ranges(layout: Layout) -> dict[str, tuple[int, int]]:
    """Inclusive ranges of the indices, and of the lengths where sequences differ."""
    segments = layout.segments
    lengths_q, lengths_kv = [part.len_q for part in segments], [part.len_kv for part in segments]
    return {
        "len_q": (min(lengths_q), max(lengths_q)),
        "len_kv": (min(lengths_kv), max(lengths_kv)),
        "b": (0, layout.batch - 1),
        "h": (0, layout.heads - 1),
        "hkv": (0, layout.kv_heads - 1),
        "q": (0, max(0, *(part.q_offset + part.count_q - 1 for part in segments))),
        "kv": (0, max(0, *(part.kv_offset + part.count_kv - 1 for part in segments))),
    }
