"""Addresses to places: CTA and offset of a shared address, window of a generic one. FACTS C8."""

from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.layout import SHARED_WINDOW, WINDOW_BITS

RANK_BITS = 24
OFFSET = (1 << RANK_BITS) - 1


def shared_place(warp: Any, address: int) -> tuple[Any, int]:
    """CTA and offset of a shared address, also given as a generic one."""
    if address >> WINDOW_BITS == SHARED_WINDOW >> WINDOW_BITS:
        address &= 0xFFFFFFFF
    elif address >> 32:
        raise KernelFault("wrong-space", f"generic address {address:#x} is not in shared memory")
    return warp.cta.cluster.cta(address >> RANK_BITS), address & OFFSET


def by_cta(warp: Any, addresses: Any) -> list[tuple[Any, Any, Any]]:
    """(CTA, lanes, offsets) of an array of shared addresses."""
    addresses = addresses.astype(np.int64) & 0xFFFFFFFF
    ranks = addresses >> RANK_BITS
    offsets = addresses & OFFSET
    first = int(ranks[0])
    if (ranks == first).all():
        return [(warp.cta.cluster.cta(first), slice(None), offsets)]
    return [(warp.cta.cluster.cta(int(rank)), np.flatnonzero(ranks == rank), offsets[ranks == rank]) for rank in np.unique(ranks)]


def is_shared(addresses: Any) -> bool:
    """Whether generic addresses lie in the shared window."""
    return bool(addresses[0] >> np.uint64(WINDOW_BITS) == SHARED_WINDOW >> WINDOW_BITS)


def window(addresses: Any) -> int:
    """The window of generic addresses: 0 is global memory."""
    return int(addresses[0] >> np.uint64(WINDOW_BITS)) << WINDOW_BITS
