"""Special registers and the addresses of symbols, as lane arrays. PTX ISA 10."""

from typing import Any

import numpy as np
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.instructions.rule import LANES
from attnspec.emulator.machine.layout import CONSTANT_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW
from attnspec.emulator.machine.shared_memory import RESERVED

AXES = "xyz"
CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
LANE = np.arange(LANES, dtype=np.uint32)


class Names(dict[str, Any]):
    """A name that is not there is one the emulator does not know."""

    def __missing__(self, name: str) -> Any:
        raise EmulatorError(f"special register or symbol `{name}` is not known to the emulator")

    def __or__(self, other: dict[str, Any]) -> "Names":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Names({**self, **other})


def same(value: int, dtype: Any = np.uint32) -> np.ndarray:
    """One value in all lanes."""
    array = np.full(LANES, value, dtype)
    array.flags.writeable = False
    return array


def special_of_cta(cta: Any) -> Names:
    """What all warps of a CTA share."""
    launch = cta.machine.launch
    found: dict[str, Any] = {}
    for axis, name in enumerate(AXES):
        size = launch.cluster[axis]
        found[f"%ntid.{name}"] = same(launch.block[axis])
        found[f"%ctaid.{name}"] = same(cta.place[axis])
        found[f"%nctaid.{name}"] = same(launch.grid[axis])
        found[f"%clusterid.{name}"] = same(cta.place[axis] // size)
        found[f"%nclusterid.{name}"] = same(launch.grid[axis] // size)
        found[f"%cluster_ctaid.{name}"] = same(cta.place[axis] % size)
        found[f"%cluster_nctaid.{name}"] = same(size)
    size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    found["%cluster_ctarank"] = same(cta.rank)
    found["%cluster_nctarank"] = same(size)
    found["%is_explicit_cluster"] = np.full(LANES, size > 1)
    found["%smid"] = same(cta.cluster.number * size + cta.rank)
    found["%nsmid"] = same(launch.processors)
    found["%dynamic_smem_size"] = same(launch.shared_bytes)
    found["%total_smem_size"] = same(cta.layout.shared_bytes)
    found["%nwarpid"] = same(64)
    found["%gridid"] = same(0, np.uint64)
    # Time does not pass: a kernel that waits for it to does not end, and one that only reads it is the same in every run.
    found |= {name: same(0, np.uint64 if name.endswith(("64", "timer")) else np.uint32) for name in CLOCKS}
    found["%aggr_smem_size"] = same(cta.layout.shared_bytes + RESERVED)
    found["%reserved_smem_offset_begin"] = same(0)
    found["%reserved_smem_offset_end"] = same(RESERVED)
    found["WARP_SZ"] = same(LANES)
    found |= {name: same(cta.rank << 24 | offset) for name, offset in cta.layout.shared.items()}
    found |= {name: same(PARAMETER_WINDOW | offset, np.uint64) for name, offset in cta.layout.parameters.items()}
    found |= {name: same(LOCAL_WINDOW | offset, np.uint64) for name, offset in cta.layout.local.items()}
    found |= {name: same(CONSTANT_WINDOW | offset, np.uint64) for name, offset in cta.layout.constant.items()}
    return Names(found)


def special_of_warp(numbers: np.ndarray, block: tuple[int, int, int], index: int) -> dict[str, Any]:
    """What differs between warps. numbers: of its threads in the CTA."""
    numbers = numbers.astype(np.uint32)
    x, y = np.uint32(block[0]), np.uint32(block[1])
    bits = np.uint32(1) << LANE
    return {
        "%tid.x": numbers % x,
        "%tid.y": numbers // x % y,
        "%tid.z": numbers // (x * y),
        "%laneid": LANE,
        "%warpid": same(index),
        "%lanemask_eq": bits,
        "%lanemask_lt": bits - np.uint32(1),
        "%lanemask_le": bits - np.uint32(1) | bits,
        "%lanemask_gt": ~(bits - np.uint32(1) | bits),
        "%lanemask_ge": ~(bits - np.uint32(1)),
    }
