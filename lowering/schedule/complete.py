"""The rest of a draft follows from roles and places: depths, hand-overs, addresses, registers."""

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.add_barriers import add_barriers
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.place_buffers import place_buffers
from attnspec.lowering.schedule.schedule import Channel, Choices, Draft, Placement
from attnspec.lowering.schedule.set_backward_depths import set_backward_depths
from attnspec.lowering.schedule.set_depths import set_depths
from attnspec.lowering.schedule.solution import Solution
from attnspec.lowering.schedule.split_registers import split_registers

ELEMENT_BYTES = 2


def complete(dataflow: Dataflow, solution: Solution, choices: Choices, dims: tuple[int, int], limits: Limits) -> Draft:
    """A draft from a solution. dims: head dimensions of q and k, and of v. `Unsupported` names them if they do not fit."""
    depths = find_depths(dataflow, dims, limits)
    channels = add_barriers(dataflow, solution.roles, depths)
    placements = place_buffers(dataflow, depths, limits, statement(dims), solution.separate)
    return Draft(
        dataflow=dataflow,
        target=limits.target,
        roles=split_registers(dataflow, solution.roles, limits),
        channels=channels,
        placements=placements,
        choices=choices,
        head_dim=dims[0],
        head_dim_v=dims[1],
        element_bytes=ELEMENT_BYTES,
        threads=32 * sum(len(role.warps) for role in solution.roles),
        shared_bytes=shared_bytes(placements, channels),
        tensor_columns=tensor_columns(placements),
    )


def find_depths(dataflow: Dataflow, dims: tuple[int, int], limits: Limits) -> dict[str, int]:
    """Copies of each buffer in shared and tensor memory."""
    find = set_depths if dataflow.direction == "forward" else set_backward_depths
    return find(dataflow, limits, statement(dims))


def statement(dims: tuple[int, int]) -> str:
    """The statement of the file that asks for these head dimensions."""
    return f"head_dim {dims[0]}" + (f", {dims[1]}" if dims[1] != dims[0] else "")


def shared_bytes(placements: tuple[Placement, ...], channels: tuple[Channel, ...]) -> int:
    """Shared memory of the block: buffers, then eight bytes a barrier, then sixteen for the tensor memory address."""
    rings = {channel.ring: channel for channel in channels}
    barriers = sum(ring.depth * (2 if ring.empty else 1) for ring in rings.values())
    ends = (item.end() for item in placements if item.space == "shared")
    return max(ends) + 8 * barriers + 16


def tensor_columns(placements: tuple[Placement, ...]) -> int:
    """Columns to allocate: the next power of two, at least 32 (PTX ISA, tcgen05.alloc)."""
    used = max((item.end() for item in placements if item.space == "tensor"), default=0)
    return max(32, 1 << (used - 1).bit_length()) if used else 0
