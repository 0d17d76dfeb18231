"""From a dataflow graph to a verified schedule: the passes in order."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.add_barriers import add_barriers
from attnspec.lowering.schedule.assign_roles import assign_roles
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.make_choices import make_choices
from attnspec.lowering.schedule.place_buffers import place_buffers
from attnspec.lowering.schedule.refuse_backward import refuse_backward
from attnspec.lowering.schedule.refuse_unsupported import refuse_unsupported
from attnspec.lowering.schedule.schedule import Channel, Draft, Placement, Schedule
from attnspec.lowering.schedule.search import order_programs
from attnspec.lowering.schedule.set_backward_depths import set_backward_depths
from attnspec.lowering.schedule.set_depths import set_depths
from attnspec.lowering.schedule.split_registers import split_registers
from attnspec.lowering.schedule.verify import verify


def place(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Schedule:
    """Schedule a graph onto a chip. Raises `Unsupported` for what the chip cannot run, with the statement that asks for it."""
    refuse_unsupported(analysed, limits)
    if dataflow.direction == "backward":
        refuse_backward(analysed, limits)
    made = draft(dataflow, analysed, limits)
    return verify(made, limits, price(dataflow, analysed, made.choices, limits))


def draft(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Draft:
    """The schedule that the passes make, before it is verified."""
    spec = analysed.spec
    statement = f"head_dim {spec.head_dim}" + (f", {spec.head_dim_v}" if spec.head_dim_v != spec.head_dim else "")
    roles = order_programs(dataflow, assign_roles(dataflow))
    find_depths = set_depths if dataflow.direction == "forward" else set_backward_depths
    depths = find_depths(dataflow, limits, statement)
    channels = add_barriers(dataflow, roles, depths)
    placements = place_buffers(dataflow, depths, limits, statement)
    return Draft(
        dataflow=dataflow,
        target=limits.target,
        roles=split_registers(dataflow, roles, limits),
        channels=channels,
        placements=placements,
        choices=make_choices(dataflow, analysed, limits),
        head_dim=spec.head_dim,
        head_dim_v=spec.head_dim_v,
        element_bytes=2,
        threads=32 * sum(len(role.warps) for role in roles),
        shared_bytes=shared_bytes(placements, channels),
        tensor_columns=tensor_columns(placements),
    )


def shared_bytes(placements: tuple[Placement, ...], channels: tuple[Channel, ...]) -> int:
    """Shared memory of the block: buffers, then eight bytes a barrier, then sixteen for the tensor memory address."""
    rings = {channel.ring: channel for channel in channels}
    barriers = sum(ring.depth * (2 if ring.empty else 1) for ring in rings.values())
    ends = (item.start(item.depth - 1) + item.size for item in placements if item.space == "shared")
    return max(ends) + 8 * barriers + 16


def tensor_columns(placements: tuple[Placement, ...]) -> int:
    """Columns to allocate: the next power of two, at least 32 (PTX ISA, tcgen05.alloc)."""
    used = max(item.start(item.depth - 1) + item.size for item in placements if item.space == "tensor")
    return max(32, 1 << (used - 1).bit_length())
