"""From what a rank was given to a `Job`: checked, agreed with the others, gathered, planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attnspec.backends.layout import Layout, Segment
from attnspec.distributed.agree import Card, check_rows
from attnspec.distributed.job import Starts
from attnspec.distributed.layout import Kind, SequenceLayout, layout_of
from attnspec.distributed.plan import Plan
from attnspec.distributed.visible import Sizes
from attnspec.errors import ArgumentError
from attnspec.language.expr import Name
from attnspec.language.show import show
from attnspec.language.spec import Spec
from attnspec.language.spec import Tensor as Declared
from attnspec.runtime.arguments import (
    check_agree,
    check_heads,
    check_kinds,
    check_limits,
    check_starts,
    check_strides,
    read_starts,
)
from attnspec.runtime.declared import check_arrays, declaration, take_declared

Layouts = tuple[SequenceLayout, SequenceLayout]


@dataclass(frozen=True)
class Taken:
    """What a rank was given, checked as far as one rank can. axes: of declared tensors given in shards, by declaration."""

    q: Tensor
    k: Tensor
    v: Tensor
    tensors: tuple[Tensor, ...]
    axes: tuple[int | None, ...]
    starts: tuple[Any, Any]

    @property
    def rows(self) -> tuple[int, int]:
        """Of this rank's shards."""
        return self.q.shape[-3], self.k.shape[-3]


@dataclass(frozen=True)
class Given:
    """A call as a rank makes it.

    sharded: declared tensors in shards. wanted: whether q, k, v and each declared tensor want a gradient; None: as the tensors
    say. problem: what was found wrong before.
    """

    arrays: tuple[Any, Any, Any]
    tensors: Mapping[str, Any]
    sharded: Sequence[str]
    starts: tuple[Any, Any]
    deterministic: bool
    plan: Plan | None
    wanted: Sequence[bool] | None = None
    problem: str = ""


def take(spec: Spec, given: Given) -> Taken:
    """ArgumentError for what is wrong on this rank whatever the others have."""
    if given.problem:
        raise ArgumentError(given.problem)
    (q, k, v), starts = given.arrays, given.starts
    check_kinds(spec, q, k, v)
    check_agree(q, k, v, spec.is_varlen)
    check_heads(spec, q.shape[-2], k.shape[-2])
    for name, array in (("q", q), ("k", k), ("v", v)):
        check_strides(name, array)
    if spec.is_varlen:
        starts = check_starts("cu_seqlens_q", starts[0]), check_starts("cu_seqlens_kv", starts[1])
        if len(starts[0]) != len(starts[1]):
            found = f"{len(starts[1]) - 1} sequences, but cu_seqlens_q has {len(starts[0]) - 1}"
            raise ArgumentError(f"cu_seqlens_kv: {found}")
    elif starts != (None, None):
        raise ArgumentError("cu_seqlens: only a variant with `varlen` takes packed sequences")
    declared = take_declared(spec, given.tensors, q.device)
    axes = tuple(axis_of(tensor) if tensor.name in given.sharded else None for tensor in spec.tensors)
    return Taken(q, k, v, declared, axes, starts)


def axis_of(tensor: Declared) -> int:
    """The axis that is cut: the first whose extent is len_q, else len_kv."""
    for name in ("len_q", "len_kv"):
        if Name(name, "int") in tensor.shape:
            return tensor.shape.index(Name(name, "int"))
    raise ArgumentError(f"sharded: {tensor.name}: {declaration(tensor)} has no axis of extent len_q or len_kv to cut")


def wants(arrays: Sequence[Tensor]) -> list[bool]:
    """Whether a gradient of each is asked for."""
    return [array.requires_grad and torch.is_grad_enabled() for array in arrays]


def card_of(spec: Spec, taken: Taken, given: Given, options: Mapping[str, str], readers: frozenset[str], version: str) -> Card:
    """What this rank says. readers: tensors whose values decide what is sent to whom."""
    q, k = taken.q, taken.k
    shapes, values = [], []
    for tensor, array, axis in zip(spec.tensors, taken.tensors, taken.axes, strict=True):
        shape = [("*" if at == axis else str(size)) for at, size in enumerate(array.shape)]
        shapes.append(f"{tensor.name} ({', '.join(shape)})")
        if tensor.name in readers and axis is None:
            values.append(f"{tensor.name} #{digest(array)}")
    flags = given.wanted or wants((q, k, taken.v, *taken.tensors))
    names = ("q", "k", "v", *(tensor.name if tensor.is_learned else "" for tensor in spec.tensors))
    wanted = [name for name, flag in zip(names, flags, strict=True) if flag and name]
    starts = [" ".join(map(str, numbers(one))) for one in taken.starts if one is not None]
    said = {
        "attnspec": version,
        "variant": words_of(spec),
        "dtype": f"{q.dtype}",
        "batch": "packed" if spec.is_varlen else str(len(q)),
        "heads": f"{q.shape[-2]} over {k.shape[-2]}",
        "packed sequences": " and ".join(starts),
        "shapes of declared tensors": ", ".join(shapes),
        "values of the tensors that the mask's ranges read": ", ".join(values),
        "gradients wanted": ", ".join(wanted),
        **options,
    }
    return Card(said, taken.rows)


@lru_cache(maxsize=256)
def words_of(spec: Spec) -> str:
    """Its name, and a few letters that differ where what it computes does."""
    return f"{spec.name} #{blake2b(show(spec).encode(), digest_size=4).hexdigest()}"


def digest(array: Tensor) -> str:
    """A few letters that differ where values do."""
    return blake2b(array.detach().cpu().contiguous().numpy().tobytes(), digest_size=8).hexdigest()


def numbers(given: Any) -> list[int]:
    """cu_seqlens as ints."""
    return given.tolist() if isinstance(given, Tensor) else list(given)


def layouts_of(kinds: tuple[Kind, Kind], rows: Sequence[tuple[int, int]]) -> Layouts:
    """The layouts of q and of k for the rows that all ranks have; ArgumentError names the ranks whose shards do not fit."""
    found = []
    for name, kind, counts in zip(("q", "k and v"), kinds, zip(*rows, strict=True), strict=True):
        layout = layout_of(kind, sum(counts), len(rows))
        check_rows(name, counts, layout.counts, layout.name)
        found.append(layout)
    return found[0], found[1]


def sizes_of(spec: Spec, taken: Taken, layouts: Layouts) -> tuple[Sizes, Starts]:
    """Sizes of the whole call, and the starts of packed sequences."""
    heads, kv_heads = taken.q.shape[-2], taken.k.shape[-2]
    if not spec.is_varlen:
        sizes = Sizes(len(taken.q), heads, kv_heads, (layouts[0].length,), (layouts[1].length,))
        return sizes, (None, None)
    starts = (
        read_starts("cu_seqlens_q", taken.starts[0], layouts[0].length, "q of all ranks"),
        read_starts("cu_seqlens_kv", taken.starts[1], layouts[1].length, "k of all ranks"),
    )
    lengths = [tuple(last - first for first, last in pairwise(one)) for one in starts]
    return Sizes(len(starts[0]) - 1, heads, kv_heads, lengths[0], lengths[1], True), starts


def check_whole(spec: Spec, sizes: Sizes, tensors: Sequence[Tensor]) -> None:
    """The declared tensors of the whole call, as a call of one process would check them."""
    lengths = list(zip(sizes.lengths_q, sizes.lengths_kv, strict=True))
    batch = sizes.batch if not sizes.is_packed else len(lengths)
    segments = []
    for b in range(batch):
        len_q, len_kv = lengths[b] if sizes.is_packed else lengths[0]
        segments.append(Segment(b, b, b, len_q, len_kv, 0, 0, len_q, len_kv))
    longest_q, longest_kv = max(sizes.lengths_q, default=0), max(sizes.lengths_kv, default=0)
    layout = Layout(batch, sizes.heads, sizes.kv_heads, sizes.is_packed, tuple(segments), longest_q, longest_kv)
    check_limits(layout)
    check_arrays(spec, tensors, layout)
