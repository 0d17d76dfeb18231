"""Calls that are wrong on some ranks, and processes that end in the midst of one."""

import os
import signal
import time
from typing import Any

import torch
from torch.distributed import ProcessGroup

import attnspec
from attnspec.distributed import context_parallel

CAUSAL = "attention causal\nhead_dim 16\nmask = causal\n"
WINDOW = "attention causal\nhead_dim 16\nmask = window(3, 0)\n"
DOCUMENTS = """attention documents
head_dim 16
input ids_q: i32[batch, len_q] sorted
input ids_kv: i32[batch, len_kv] sorted
mask = document(ids_q, ids_kv)
"""


def draw(rows: int, heads: int = 2, **more: Any) -> list[torch.Tensor]:
    """q, k, v."""
    return [torch.randn(1, rows, heads, 16, generator=torch.Generator().manual_seed(1)).bfloat16() for _ in range(3)]


def message_of(group: ProcessGroup, fault: str, backend: str | None = None) -> str:
    """What a rank is told, the second rank being wrong. backend: of torch.compile."""
    is_wrong = group.rank() == 1
    takes_ids = fault in ("values", "declared")
    attention = attnspec.build(WINDOW if fault == "spec" and is_wrong else DOCUMENTS if takes_ids else CAUSAL)
    strategy = "all_gather" if fault == "strategy" and is_wrong else "ring"
    together = compiled(context_parallel(attention, group, strategy, "contiguous"), backend)
    q, k, v = draw(5 if fault == "rows" and is_wrong else 4, 4 if fault == "heads" and is_wrong else 2)
    tensors = {}
    if fault == "values":
        ids = torch.arange(12, dtype=torch.int32)[None] // (5 if is_wrong else 4)
        tensors = {"ids_q": ids, "ids_kv": ids}
    if fault == "name" and is_wrong:
        tensors = {"ids": torch.zeros(1)}
    if fault == "declared":
        ids = torch.arange(12, dtype=torch.int32)[None]
        tensors = {"ids_q": ids.float() if is_wrong else ids, "ids_kv": ids}
    if fault == "dtype" and is_wrong:
        q = q.float()
    if fault == "batch" and is_wrong:
        q, k, v = (torch.cat([one, one]) for one in (q, k, v))
    if fault == "gradient" and is_wrong:
        q.requires_grad_()
    try:
        together(q, k, v, **tensors)
    except attnspec.ArgumentError as error:
        return str(error)
    return "no error"


def in_a_graph_on_one(group: ProcessGroup) -> str:
    """What ranks are told of a call with shards of ids that the second rank alone has not compiled."""
    backend = None if group.rank() == 1 else "aot_eager"
    together = compiled(context_parallel(attnspec.build(DOCUMENTS), group, sharded=("ids_q", "ids_kv")), backend)
    ids = torch.zeros(1, 4, dtype=torch.int32)
    try:
        together(*draw(4), ids_q=ids, ids_kv=ids)
    except attnspec.ArgumentError as error:
        return str(error)
    return "no error"


def compiled(together: Any, backend: str | None) -> Any:
    """Through torch.compile without graph breaks, if a backend is given."""
    if backend is None:
        return together
    torch.compiler.reset()
    return torch.compile(together, fullgraph=True, backend=backend)


def die(group: ProcessGroup, how: str, backend: str | None = None) -> tuple[str, float]:
    """The error of a rank whose neighbour ends, or stops, in the midst of a call; and the seconds it took to know."""
    from attnspec.distributed import ring

    together = compiled(context_parallel(attnspec.build(CAUSAL), group), backend)
    q, k, v = draw(4)
    together(q, k, v)
    if group.rank() == 1:
        plain = ring.send_keys

        def send_keys(*arguments: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            return plain(*arguments)

        ring.send_keys = send_keys
    start = time.monotonic()
    try:
        together(q, k, v)
    except Exception as error:
        return f"{type(error).__name__}: {error}", time.monotonic() - start
    return "no error", time.monotonic() - start
