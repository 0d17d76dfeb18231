"""Contexts by their handle: what a graph of torch's holds of a call over ranks, and finds it again by.

A handle is one line: the group's name, how shards are cut and exchanged, the variant. Whoever made a context holds it; here it is
only found, or made again for a graph that outlived it or came from another process. Layouts that have no name of their own go
beside the handle as tensors, for those of the next batch are others, and a graph takes them for inputs.
"""

import json
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.distributed import ProcessGroup, distributed_c10d

from attnspec.distributed.layout import Kind, SequenceLayout, Span
from attnspec.errors import ArgumentError
from attnspec.operators.handles import attention_of

if TYPE_CHECKING:
    from attnspec.distributed.context_parallel import ContextParallel

MOST_MADE_AGAIN = 16
Spans = tuple[Tensor | None, Tensor | None]  # of the layouts of q and of k, where they are not known by name
Key = tuple[str, bytes | None, bytes | None]
_made: "WeakValueDictionary[Key, ContextParallel]" = WeakValueDictionary()
_made_again: "dict[Key, ContextParallel]" = {}


def handle_of(context: "ContextParallel") -> str:
    """All that a context was made of, but for the spans of its layouts."""
    parts = {
        "group": context.ranks.group.group_name,
        "ranks": context.ranks.size,
        "strategy": context.strategy,
        "layouts": [kind if isinstance(kind, str) else kind.name for kind in context.kinds],
        "sharded": context.sharded,
        "reduce_learned": context.reduce_learned,
        "machine": asdict(context.machine),
        "spare": context.programs.spare,
        "variant": context.attention.handle,
    }
    return json.dumps(parts)


def spans_of(kind: Kind) -> Tensor | None:
    """The spans of a layout, (spans, 4): first, last, rank, row."""
    if not isinstance(kind, SequenceLayout):
        return None
    rows = [(span.first, span.last, span.rank, span.row) for span in kind.spans]
    return torch.tensor(rows, dtype=torch.int64, device="cpu").reshape(-1, 4)


def kind_of(name: str, spans: Tensor | None, ranks: int) -> Kind:
    """The way back."""
    if spans is None:
        return name
    found = tuple(Span(*row) for row in spans.tolist())
    return SequenceLayout(name, sum(span.last - span.first for span in found), ranks, found)


def key_of(handle: str, spans: Spans) -> Key:
    """What a context is found by."""
    rows, keys = (None if one is None else one.numpy().tobytes() for one in spans)
    return handle, rows, keys


def remember(context: "ContextParallel") -> None:
    """It is found by its handle from now on, while it lives."""
    _made[key_of(context.handle, context.spans)] = context


def context_of(handle: str, spans: Spans) -> "ContextParallel":
    """The context of a handle: one whose group is still that of the name, or one made anew."""
    group = group_of(parts_of(handle)["group"])
    key = key_of(handle, spans)
    for known in (_made, _made_again):
        found = known.get(key)
        if found is not None and found.ranks.group is group:
            return found
    while len(_made_again) >= MOST_MADE_AGAIN:
        del _made_again[next(iter(_made_again))]
    _made_again[key] = found = make_again(handle, spans, group)
    return found


def make_again(handle: str, spans: Spans, group: ProcessGroup) -> "ContextParallel":
    """A context like the one that the handle was of."""
    from attnspec.distributed.context_parallel import context_parallel
    from attnspec.distributed.estimate import Machine

    parts = parts_of(handle)
    rows, keys = (kind_of(name, one, parts["ranks"]) for name, one in zip(parts["layouts"], spans, strict=True))
    options = {name: parts[name] for name in ("sharded", "reduce_learned", "spare")}
    options["machine"] = Machine(**parts["machine"])
    return context_parallel(attention_of(variant_of(handle)), group, parts["strategy"], (rows, keys), **options)


def group_of(name: str) -> ProcessGroup:
    """The group of a name in this process."""
    try:
        return distributed_c10d._resolve_process_group(name)  # pyright: ignore[reportPrivateImportUsage, reportArgumentType]
    except RuntimeError as error:
        why = f"this process has none of that name ({error})"
        raise ArgumentError(f"group: a compiled graph was made for the process group {name!r}, but {why}") from error


@lru_cache(maxsize=256)
def parts_of(handle: str) -> dict[str, Any]:
    """What a handle says."""
    return json.loads(handle)


def variant_of(handle: str) -> str:
    """The handle of the variant."""
    return parts_of(handle)["variant"]
