"""What must stand between an access and the signal that hands its place to another engine (PTX ISA, memory consistency of
tcgen05 and the async proxy).

| kind           | before a signal by threads                     | after the wait              |
|----------------|------------------------------------------------|-----------------------------|
| tensor_store   | wait::st, fence::before_thread_sync            | fence::after_thread_sync    |
| tensor_load    | wait::ld, fence::before_thread_sync            | fence::after_thread_sync    |
| tensor_order   | fence::before_thread_sync                      | fence::after_thread_sync    |
| shared_async   | fence.proxy.async (generic write, async read)  | nothing                     |
| cluster_async  | the same, of the shared memory of both CTAs    | nothing                     |
| tensor_result  | nothing (commit orders it)                     | fence::after_thread_sync    |
"""

from typing import Literal

import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx

Moment = Literal["before_signal", "after_wait"]


def fence(moment: Moment, kind: str) -> None:
    """The fences of one row of the table at one moment; nothing for kind ""."""
    if moment == "after_wait":
        if kind in ("tensor_store", "tensor_load", "tensor_order", "tensor_result"):
            ptx("tcgen05.fence::after_thread_sync;")
        return
    if kind == "tensor_store":
        ptx("tcgen05.wait::st.sync.aligned;")
        ptx("tcgen05.fence::before_thread_sync;")
    elif kind == "tensor_load":
        ptx("tcgen05.wait::ld.sync.aligned;")
        ptx("tcgen05.fence::before_thread_sync;")
    elif kind == "tensor_order":
        ptx("tcgen05.fence::before_thread_sync;")
    elif kind == "shared_async":
        cute.arch.fence_proxy("async.shared", space="cta")
    elif kind == "cluster_async":
        cute.arch.fence_proxy("async.shared", space="cluster")
