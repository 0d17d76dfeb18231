"""A sequence longer than one GPU: any variant over shards of its sequences, on torch's own process groups.

`context_parallel(attn, group)` is a callable like `attn`; see docs/distributed.md.
"""

from attnspec.distributed.context_parallel import ContextParallel, context_parallel
from attnspec.distributed.layout import SequenceLayout, contiguous, layout_from, striped, zigzag
from attnspec.distributed.plan import Plan
from attnspec.distributed.ranks import LostRankError

__all__ = [
    "ContextParallel",
    "LostRankError",
    "Plan",
    "SequenceLayout",
    "context_parallel",
    "contiguous",
    "layout_from",
    "striped",
    "zigzag",
]
