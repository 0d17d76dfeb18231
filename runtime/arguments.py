"""Checks of a call's q, k, v and sizes: each fault an error that names the tensor, what was found and what was wanted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any

import torch
from attnspec.backends.layout import Layout, Segment
from torch import Tensor

from attnspec.errors import ArgumentError
from attnspec.language.limits import MAX_BATCH, MAX_HEADS, MAX_LENGTH
from attnspec.language.spec import Spec

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "f32": torch.float32, "i32": torch.int32, "bool": torch.bool}
ALIGNMENT = 16  # bytes; what a bulk copy on the GPU can start at
Lengths = Tensor | Sequence[int]


@dataclass(frozen=True)
class Placing:
    """Where a call's rows and keys lie among all positions, as given; None: not given."""

    cu_seqlens_q: Lengths | None = None
    cu_seqlens_kv: Lengths | None = None
    q_offset: Any = 0
    kv_offset: Any = 0
    len_q: Any = None
    len_kv: Any = None


def check_call(spec: Spec, q: Any, k: Any, v: Any, placing: Placing) -> Layout:
    """The layout of a call whose q, k and v are right."""
    check_kinds(spec, q, k, v)
    check_agree(q, k, v, spec.is_varlen)
    check_heads(spec, q.shape[-2], k.shape[-2])
    for name, array in (("q", q), ("k", k), ("v", v)):
        check_strides(name, array)
    layout = packed_layout(q, k, placing) if spec.is_varlen else dense_layout(q, k, placing)
    check_limits(layout)
    return layout


def check_kinds(spec: Spec, q: Any, k: Any, v: Any) -> None:
    """What is right or wrong whatever the lengths are."""
    axes = ("total", "heads", "head_dim") if spec.is_varlen else ("batch", "length", "heads", "head_dim")
    for name, array in (("q", q), ("k", k), ("v", v)):
        check_tensor(spec, name, array, len(axes), f"({', '.join(axes)})")
    check_devices(q, k=k, v=v)
    check_widths(spec, q, k, v)


def check_tensor(spec: Spec, name: str, array: Any, rank: int, axes: str) -> None:
    """Type, dtype and rank."""
    if not isinstance(array, Tensor):
        raise ArgumentError(f"{name}: a torch.Tensor is wanted, got {type(array).__name__}")
    check_plain(name, array)
    if array.dtype != DTYPES[spec.dtype]:
        declared = f"{spec.name} computes in {spec.dtype} (its `dtype` statement; bf16 without one)"
        raise ArgumentError(f"{name}: dtype {array.dtype}, wanted {DTYPES[spec.dtype]}: {declared}")
    if array.dim() != rank:
        kind = "packed sequences (`varlen`)" if spec.is_varlen else "a batch"
        raise ArgumentError(f"{name}: shape {tuple(array.shape)}, wanted {axes}: {spec.name} takes {kind}")


def check_plain(name: str, array: Tensor) -> None:
    """A dense tensor."""
    if array.layout != torch.strided:
        raise ArgumentError(f"{name}: a dense tensor is wanted, got layout {array.layout}")


def check_devices(q: Tensor, **others: Tensor) -> None:
    """All on the device of q."""
    for name, array in others.items():
        if array.device != q.device:
            raise ArgumentError(f"{name}: on {array.device}, but q is on {q.device}")


def check_widths(spec: Spec, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Head dimensions as declared."""
    for name, array, wanted in (("q", q, spec.head_dim), ("k", k, spec.head_dim), ("v", v, spec.head_dim_v)):
        if array.shape[-1] != wanted:
            what = "value width" if name == "v" and spec.head_dim_v != spec.head_dim else "head_dim"
            raise ArgumentError(f"{name}: {what} {array.shape[-1]} (shape {tuple(array.shape)}), {spec.name} has {wanted}")


def check_agree(q: Tensor, k: Tensor, v: Tensor, is_varlen: bool) -> None:
    """k and v of one shape but for the width; one batch."""
    if k.shape[:-1] != v.shape[:-1]:
        raise ArgumentError(f"v: shape {tuple(v.shape)} does not go with k's {tuple(k.shape)}: all but the width must agree")
    if not is_varlen and len(q) != len(k):
        raise ArgumentError(f"k: batch {len(k)} (shape {tuple(k.shape)}), but q has batch {len(q)}")


LAYOUT = "q, k, v are (batch, length, heads, head_dim), or (total, heads, head_dim) with varlen"


def check_heads(spec: Spec, heads: int, kv_heads: int) -> None:
    """Query heads in whole groups."""
    if kv_heads == 0 or heads == 0 or heads % kv_heads:
        raise ArgumentError(f"q: {heads} heads cannot be shared out over {kv_heads} key/value heads in equal groups; {LAYOUT}")
    if spec.group is not None and heads != kv_heads * spec.group:
        found = f"{heads} query heads over {kv_heads} key/value heads is a group of {heads // kv_heads}"
        raise ArgumentError(f"q: {found}, but {spec.name} declares `group {spec.group}`; {LAYOUT}")


def check_strides(name: str, array: Tensor) -> None:
    """Unit stride in the last axis and 16-byte alignment of every row; the contract's rule 8."""
    if array.numel() == 0:
        return
    rule = "the last axis must have stride 1 and every other stride and the start be a multiple of 16 bytes"
    if array.shape[-1] > 1 and array.stride(-1) != 1:
        raise ArgumentError(f"{name}: stride {array.stride(-1)} in the last axis: {rule}; call .contiguous()")
    size = array.element_size()
    for axis in range(array.dim() - 1):
        if array.shape[axis] > 1 and array.stride(axis) * size % ALIGNMENT:
            found = f"stride {array.stride(axis)} ({array.stride(axis) * size} bytes) in axis {axis}"
            raise ArgumentError(f"{name}: {found}: {rule}; call .contiguous()")
    if array.data_ptr() % ALIGNMENT:
        raise ArgumentError(f"{name}: starts {array.data_ptr() % ALIGNMENT} bytes past a 16-byte boundary: {rule}; call .clone()")


def dense_layout(q: Tensor, k: Tensor, placing: Placing) -> Layout:
    """Segments of a batch."""
    for name in ("cu_seqlens_q", "cu_seqlens_kv"):
        if getattr(placing, name) is not None:
            raise ArgumentError(f"{name}: only a variant with `varlen` takes packed sequences")
    q_offset, len_q = check_positions("q", placing.q_offset, placing.len_q, q.shape[1])
    kv_offset, len_kv = check_positions("kv", placing.kv_offset, placing.len_kv, k.shape[1])
    segments = tuple(Segment(b, b, b, q.shape[1], k.shape[1], q_offset, kv_offset, len_q, len_kv) for b in range(len(q)))
    return Layout(len(q), q.shape[2], k.shape[2], False, segments, len_q, len_kv)


def packed_layout(q: Tensor, k: Tensor, placing: Placing) -> Layout:
    """Segments of packed sequences; none where the starts lie on a GPU, since reading them would wait for it."""
    for name in ("q_offset", "kv_offset"):
        if check_int(name, getattr(placing, name)) != 0:
            raise ArgumentError(f"{name}: packed sequences start at position 0 each")
    for name in ("len_q", "len_kv"):
        if getattr(placing, name) is not None:
            raise ArgumentError(f"{name}: packed sequences have the lengths that cu_seqlens give")
    given_q = check_starts("cu_seqlens_q", placing.cu_seqlens_q)
    given_kv = check_starts("cu_seqlens_kv", placing.cu_seqlens_kv)
    if len(given_q) != len(given_kv):
        found = f"{len(given_kv) - 1} sequences, but cu_seqlens_q has {len(given_q) - 1}"
        raise ArgumentError(f"cu_seqlens_kv: {found}")
    if isinstance(given_q, Tensor) and isinstance(given_kv, Tensor) and given_q.is_cuda and given_kv.is_cuda:
        return Layout(len(given_q) - 1, q.shape[1], k.shape[1], True, (), len(q), len(k))
    starts_q = read_starts("cu_seqlens_q", given_q, len(q), "q")
    starts_kv = read_starts("cu_seqlens_kv", given_kv, len(k), "k")
    segments = []
    for b, (rows, keys) in enumerate(zip(pairwise(starts_q), pairwise(starts_kv))):
        count_q, count_kv = rows[1] - rows[0], keys[1] - keys[0]
        segments.append(Segment(b, slice(*rows), slice(*keys), count_q, count_kv, 0, 0, count_q, count_kv))
    longest_q = max((part.len_q for part in segments), default=0)
    longest_kv = max((part.len_kv for part in segments), default=0)
    return Layout(len(segments), q.shape[1], k.shape[1], True, tuple(segments), longest_q, longest_kv)


def check_starts(name: str, given: Lengths | None) -> Tensor | list[int]:
    """Starts of packed sequences, their values not yet looked at."""
    if given is None:
        raise ArgumentError(f"{name}: missing: a variant with `varlen` needs the start of every sequence, and the total")
    if not isinstance(given, Tensor):
        if not isinstance(given, Iterable):
            raise ArgumentError(f"{name}: an int32 tensor or a list of ints is wanted, got {type(given).__name__}")
        return [check_int(name, start) for start in given]
    if given.dtype not in (torch.int32, torch.int64) or given.dim() != 1:
        raise ArgumentError(f"{name}: {given.dtype} of shape {tuple(given.shape)}, wanted int32 of shape (batch + 1,)")
    if given.is_meta:
        raise ArgumentError(f"{name}: on {given.device}, which holds no values")
    return given


def read_starts(name: str, given: Tensor | list[int], total: int, array: str) -> list[int]:
    """Their values: from 0, never falling, to the total."""
    starts: list[int] = given.tolist() if isinstance(given, Tensor) else given
    if not starts or starts[0] != 0 or starts[-1] != total:
        ends = f"{starts[0]} to {starts[-1]}" if starts else "nothing"
        raise ArgumentError(f"{name}: goes from {ends}, wanted 0 to {total}, the length of {array}")
    for b, (first, last) in enumerate(pairwise(starts)):
        if last < first:
            raise ArgumentError(f"{name}: falls from {first} to {last} at sequence {b}")
    return starts


def check_positions(axis: str, offset: Any, whole: Any, count: int) -> tuple[int, int]:
    """Offset and whole length of an axis."""
    offset = check_int(f"{axis}_offset", offset)
    length = offset + count if whole is None else check_int(f"len_{axis}", whole)
    if offset < 0:
        raise ArgumentError(f"{axis}_offset: {offset} is negative")
    if offset + count > length:
        raise ArgumentError(f"len_{axis}: {length}, but {count} positions from {offset} on end at {offset + count}")
    return offset, length


def check_int(name: str, value: Any) -> int:
    """An int, numpy int or 0-d int tensor as an int."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise ArgumentError(f"{name}: an int is wanted, got {type(value).__name__}") from None


def check_limits(layout: Layout) -> None:
    """Sizes that 32-bit positions are proved for."""
    for name, found, largest in (
        ("batch", layout.batch, MAX_BATCH),
        ("heads", layout.heads, MAX_HEADS),
        ("length", max(layout.len_q, layout.len_kv), MAX_LENGTH),
    ):
        if found > largest:
            raise ArgumentError(f"{name} {found} is more than {largest}, the most that integer expressions are proved for")
