"""Loads and stores of tensor memory: warp w of a warpgroup reaches lanes 32w to 32w+31, a thread its own lane (shape 32x32b)."""

from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Float32, Int32, Uint32

LANE_SHIFT = 16  # a tensor memory address holds the lane in its upper half (PTX ISA, tensor memory addressing)


def warp_address(base: Any, column: Any, warp_in_group: Any) -> Int32:
    """Address of a column in the 32 lanes that a warp may touch."""
    return Int32(base) + (Int32(warp_in_group) * 32 << LANE_SHIFT) + column


def load(address: Any, count: int) -> tuple[Float32, ...]:
    """`count` consecutive 32-bit columns of this thread's lane; not ordered before later writers until `wait_loads`."""
    names = ", ".join(f"{{$w{index}}}" for index in range(count))
    text = f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {{{names}}}, [{{$r0}}];"
    return ptx(text, address, returns=[Float32] * count)


def store(address: Any, values: list[Any]) -> None:
    """Write 32-bit values to consecutive columns of this thread's lane; complete only after `wait_stores`."""
    names = ", ".join(f"{{$r{index + 1}}}" for index in range(len(values)))
    ptx(f"tcgen05.st.sync.aligned.32x32b.x{len(values)}.b32 [{{$r0}}], {{{names}}};", address, *values)


def wait_stores() -> None:
    """Until this thread's stores have been written."""
    ptx("tcgen05.wait::st.sync.aligned;")


def wait_loads() -> None:
    """Until this thread's loads have read."""
    ptx("tcgen05.wait::ld.sync.aligned;")


def wait_order() -> None:
    """What the tensor core did before a barrier that this thread has waited for comes before what the thread does next."""
    ptx("tcgen05.fence::after_thread_sync;")


def allocate(pointer: Any, columns: int, ctas: int) -> None:
    """One converged warp takes `columns` columns; their address is written to shared memory at `pointer`.

    ctas: 2 for a pair, one warp of each.
    """
    ptx(f"tcgen05.alloc.cta_group::{ctas}.sync.aligned.shared::cta.b32 [{{$r0}}], {columns};", pointer)
    ptx(f"tcgen05.relinquish_alloc_permit.cta_group::{ctas}.sync.aligned;")


def release(address: Any, columns: int, ctas: int) -> None:
    """The same warp gives them back."""
    ptx(f"tcgen05.dealloc.cta_group::{ctas}.sync.aligned.b32 {{$r0}}, {columns};", Uint32(address))
