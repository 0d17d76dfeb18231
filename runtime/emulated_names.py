"""What the emulator's reports call the parts of a kernel, read off its schedule and its emitted source."""

from collections.abc import Iterator
from pathlib import Path

import attnspec.backends
from attnspec.backends.cute.emit.pipes import PipeLine, pipe_lines
from attnspec.backends.emitted import Emitted
from attnspec.emulator.names import Names, Part, Signal
from attnspec.lowering.schedule.schedule import Arrivals, Channel, Placement, Schedule

from attnspec.language.diagnostics import excerpt

BUFFERS = {"s": "S", "p": "P", "o": "O", "kv": "K/V", "o_out": "output", "stats": "statistics"}
BARRIER_BYTES = 8


def names_of(schedule: Schedule, emitted: Emitted, folder: Path) -> Names:
    """Names for a kernel whose emitted source lies in a folder."""
    start = barriers_start(schedule)
    signals = {start + BARRIER_BYTES * index: signal for index, signal in signals_of(schedule).items()}
    end = start + BARRIER_BYTES * len(signals)
    others = (Part("barriers", start, end), Part("address of tensor memory", end, schedule.shared_bytes))
    return Names(
        roles={warp: role.name for role in schedule.roles for warp in role.warps},
        shared=(*parts(schedule, "shared", signals), *others),
        tensor=tuple(parts(schedule, "tensor", signals)),
        barriers=signals,
        arguments=tuple(row["name"] for row in emitted.manifest["arguments"]),
        specs={
            (str(folder / module.file_name), line): excerpt(span)
            for module in emitted.modules
            for line, span in module.spans.items()
        },
        kernel=f"{emitted.modules[0].name}_kernel",
        folders={f"{folder}/": "emitted ", f"{Path(attnspec.backends.__path__[0]).parent}/": ""},
    )


def parts(schedule: Schedule, space: str, signals: dict[int, Signal]) -> Iterator[Part]:
    """Every copy of every buffer of a space. signals: by byte."""
    for item in schedule.placements:
        for copy in range(item.depth if item.space == space else 0):
            full = full_barrier(schedule, item, copy, signals)
            yield Part(copy_name(schedule, item, copy), item.start(copy), item.end(copy), full)


def full_barrier(schedule: Schedule, item: Placement, copy: int, signals: dict[int, Signal]) -> int | None:
    """The barrier that is signalled when a copy is full; the last one, if several count alike (P comes in two pieces)."""
    rings = {channel.ring for channel in schedule.channels if channel.buffer == item.buffer}
    own = {f"`{ring} full`" for ring in rings if ring.endswith(f"[{copy}]")} or {f"`{ring} full`, slot {copy}" for ring in rings}
    found = [byte for byte, signal in signals.items() if signal.name in own]
    return found[-1] if len({signals[byte].uses for byte in found}) == 1 else None


def copy_name(schedule: Schedule, item: Placement, copy: int) -> str:
    """A query tile's copy, or a slot of a ring."""
    name = BUFFERS.get(item.buffer, item.buffer)
    if item.depth == 1:
        return name
    rings = {channel.ring for channel in schedule.channels if channel.buffer == item.buffer}
    by_tile = item.space == "tensor" or any(ring.endswith(f"[{copy}]") for ring in rings)
    return f"{name} of query tile {copy}" if by_tile else f"{name} ring, slot {copy}"


def barriers_start(schedule: Schedule) -> int:
    """The barriers follow the last buffer of shared memory."""
    return max(item.end() for item in schedule.placements if item.space == "shared")


def signals_of(schedule: Schedule) -> dict[int, Signal]:
    """What each barrier stands for, by its index."""
    found: dict[int, Signal] = {}
    channels: dict[str, list[Channel]] = {}
    for channel in schedule.channels:
        channels.setdefault(channel.ring, []).append(channel)
    for line in pipe_lines(schedule):
        copies = schedule.dataflow.query_tiles if line.produce.endswith("[*]") else 1
        for copy in range(copies):
            ring = line.channel.ring if copies == 1 else f"{line.channel.ring.removesuffix('[0]')}[{copy}]"
            for slot in range(line.channel.depth):
                index = copy * line.channel.depth + slot
                found.update(two_sides(schedule, channels[ring], line, index, slot))
    return found


def two_sides(schedule: Schedule, ring: list[Channel], line: PipeLine, index: int, slot: int) -> Iterator[tuple[int, Signal]]:
    """The full and the empty barrier of a slot, with their indices."""
    first = ring[0]
    where = f", slot {slot}" if first.depth > 1 else ""
    uses = uses_of(ring)
    for side, start in (("full", line.full), ("empty", line.empty)):
        if start is not None:
            operations = [channel.producer if side == "full" else channel.consumers[-1] for channel in ring]
            role = schedule.role_of(operations[0]).name
            arrivals = first.full if side == "full" else first.empty
            by = f"{role} ({how(arrivals)} {' or '.join(dict.fromkeys(operations))})"
            yield start + index, Signal(f"`{first.ring} {side}`{where}", by, role, slot, first.depth, uses)


def how(arrivals: Arrivals | None) -> str:
    """Who arrives, in words."""
    if arrivals is None or arrivals.engine == "threads":
        return "its threads, after"
    return "bytes of the TMA loads of" if arrivals.engine == "tma" else "tcgen05.commit after"


def uses_of(ring: list[Channel]) -> tuple[str, ...]:
    """What uses of a ring are called: steps and work tiles, where use n belongs to one of them whatever the other is."""
    rates = {(channel.uses.steps, channel.uses.tiles) for channel in ring}
    steps, tiles = next(iter(rates))
    if len(rates) > 1 or (steps and tiles) or steps + tiles < len(ring):
        return ("use {}",)
    unit = "step" if steps else "work tile"
    names = {channel.uses.offset % (steps + tiles): f"{channel.name} of {unit} {{}}" for channel in ring}
    if len(ring) == steps + tiles == 1:
        return (f"{unit} {{}}",)
    return tuple(names.get(at, f"{unit} {{}}") for at in range(steps + tiles))
