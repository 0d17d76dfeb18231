"""Placements and budgets: every buffer has a place of its own, and the block fits the chip."""

from collections import Counter
from itertools import combinations
from math import gcd

from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.schedule import Draft, Placement

WARPGROUP = 4
TILE = 1024  # bytes; shared tiles of that and more hold 128-byte swizzle patterns, which start at its multiples
ADDRESS_BYTES = 16  # where tcgen05.alloc leaves the address of tensor memory


def check_places(draft: Draft, limits: Limits) -> None:
    """Raise ScheduleError unless placements hold all buffers without overlap and all budgets hold."""
    _check_placements(draft)
    _check_depths(draft)
    for placement in draft.placements:
        _check_last(draft, placement)
    for left, right in combinations(draft.placements, 2):
        _check_apart(left, right)
    _check_shared(draft, limits)
    _check_tensor(draft, limits)
    _check_registers(draft, limits)


def _check_placements(draft: Draft) -> None:
    placed = Counter(placement.buffer for placement in draft.placements)
    for buffer in draft.dataflow.buffers:
        if placed[buffer.name] != (buffer.space != "register"):
            raise ScheduleError("placement-missing", f"{buffer.name} has {placed[buffer.name]} places in {buffer.space} memory")
    if len(placed) != sum(buffer.space != "register" for buffer in draft.dataflow.buffers):
        raise ScheduleError("placement-unknown", f"places for {', '.join(sorted(placed))} are more than the graph has buffers")
    for placement in draft.placements:
        buffer = draft.dataflow.buffer(placement.buffer)
        if (buffer.space, buffer.size) != (placement.space, placement.size):
            reason = f"{buffer.name} needs {buffer.size} in {buffer.space} memory, not {placement.size} in {placement.space}"
            raise ScheduleError("placement-size", reason)
        if placement.stride is not None and placement.stride < placement.size and placement.depth > 1:
            raise ScheduleError("overlap", f"copies of {placement.buffer} are {placement.stride} apart but {placement.size} long")


def _check_depths(draft: Draft) -> None:
    """As many copies as the slots of the rings: those of one ring, or of one for each query tile. No ring is one of one slot."""
    for placement in draft.placements:
        rings = {channel.depth for channel in draft.channels if channel.buffer == placement.buffer} or {1}
        allowed = {depth * count for depth in rings for count in (1, draft.dataflow.lanes)}
        if len(rings) != 1 or placement.depth not in allowed:
            raise ScheduleError(
                "ring-depth", f"{placement.buffer} has {placement.depth} copies for rings of {sorted(rings)} slots"
            )


def _check_last(draft: Draft, placement: Placement) -> None:
    """To a last copy that is shorter than the others nothing comes that is longer than it."""
    if placement.last is None:
        return
    if not 0 < placement.last <= placement.size:
        raise ScheduleError("placement-size", f"the last copy of {placement.buffer} has {placement.last} of {placement.size}")
    for value in draft.dataflow.values:
        end = value.part[1] if value.part else placement.size
        if value.buffer == placement.buffer and end > placement.last and _reaches_last(draft, placement, value.producer):
            reason = f"{value.producer} leaves {end} in the last copy of {placement.buffer}, which has {placement.last}"
            raise ScheduleError("last-copy", reason)


def _reaches_last(draft: Draft, placement: Placement, producer: str) -> bool:
    """Whether a use of the producer's channels may fall in the last copy.

    Use n = steps J + tiles T + offset has slot n mod depth: for any J and T one that differs from the offset by a multiple of
    what divides steps, tiles and depth.
    """
    channels = [item for item in draft.channels if (item.producer, item.buffer) == (producer, placement.buffer)]
    if not channels or any(item.depth != placement.depth for item in channels):
        return True
    uses = ((item.uses, gcd(item.uses.steps, item.uses.tiles, item.depth)) for item in channels)
    return any((placement.depth - 1 - use.offset) % unit == 0 for use, unit in uses)


def _check_apart(left: Placement, right: Placement) -> None:
    """Copies of two buffers may share bytes or columns only where one says that it overlays the other, or both a third."""
    if left.space != right.space or {left.buffer, left.overlays} & {right.buffer, right.overlays} - {None}:
        return
    for one in range(left.depth):
        for other in range(right.depth):
            first = max(left.start(one), right.start(other))
            last = min(left.end(one), right.end(other))
            if first < last:
                unit = "bytes" if left.space == "shared" else "columns"
                reason = f"{left.buffer} and {right.buffer} both have {unit} {first} to {last}"
                raise ScheduleError("overlap", reason)


def _check_shared(draft: Draft, limits: Limits) -> None:
    shared = [placement for placement in draft.placements if placement.space == "shared"]
    for placement in shared:
        alignment = TILE if placement.size % TILE == 0 else ADDRESS_BYTES
        if placement.offset < 0 or placement.offset % alignment:
            raise ScheduleError(
                "alignment", f"{placement.buffer} starts at byte {placement.offset}, not at a multiple of {alignment}"
            )
    rings = {channel.ring: channel for channel in draft.channels}
    barriers = sum(ring.depth * (1 if ring.empty is None else 2) for ring in rings.values())
    needed = max((placement.end() for placement in shared), default=0) + 8 * barriers + ADDRESS_BYTES
    if needed > draft.shared_bytes:
        raise ScheduleError(
            "shared-bytes", f"buffers and {barriers} barriers need {needed} bytes, {draft.shared_bytes} are asked for"
        )
    if draft.shared_bytes > limits.shared_bytes:
        raise ScheduleError("shared-bytes", f"{draft.shared_bytes} bytes are asked for, a block may have {limits.shared_bytes}")


def _check_tensor(draft: Draft, limits: Limits) -> None:
    columns = draft.tensor_columns
    if not columns and not limits.tensor_columns:
        return
    if columns not in (32, 64, 128, 256, 512) or columns > limits.tensor_columns:
        raise ScheduleError("tensor-columns", f"{columns} columns cannot be allocated")
    for placement in draft.placements:
        if placement.space == "tensor" and not 0 <= placement.offset <= placement.end() <= columns:
            reason = f"{placement.buffer} has columns {placement.offset} to {placement.end()} of {columns}"
            raise ScheduleError("tensor-columns", reason)


def _check_registers(draft: Draft, limits: Limits) -> None:
    """setmaxnreg is for a warpgroup, and an increase waits until others have given back: the sum must fit the pool."""
    groups: dict[int, set[int]] = {}
    for role in draft.roles:
        for warp in role.warps:
            groups.setdefault(warp // WARPGROUP, set()).add(role.registers)
    least, most = limits.thread_registers
    for group, counts in groups.items():
        if len(counts) > 1:
            raise ScheduleError("registers", f"roles of warpgroup {group} differ in registers: {sorted(counts)}")
        count = next(iter(counts))
        if count % 8 or not least <= count <= most:
            raise ScheduleError("registers", f"{count} registers are not a multiple of 8 from {least} to {most}")
    total = 32 * WARPGROUP * sum(next(iter(counts)) for counts in groups.values())
    pool = limits.registers // draft.threads // 8 * 8 * draft.threads  # a block starts with as many for every thread
    if total > pool:
        raise ScheduleError("registers", f"the warpgroups want {total} registers, a block has {pool}")
