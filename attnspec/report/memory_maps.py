"""Where buffers lie in shared and in tensor memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from attnspec.lowering.schedule.schedule import Schedule
from attnspec.report.elements import element, svg, titled

WIDTH = 860.0
HEIGHT = 30.0
LETTER = 7.0
SIZES = {"shared": "bytes", "tensor": "columns"}


@dataclass(frozen=True)
class Block:
    """One copy of a buffer; level: 1 where it lies over another buffer."""

    name: str
    first: int
    size: int
    level: int
    number: int


def blocks_of(schedule: Schedule, space: str) -> list[Block]:
    """Copies of the buffers of a space, and in shared memory the barriers behind them."""
    found: list[Block] = []
    for number, item in enumerate(place for place in schedule.placements if place.space == space):
        level = 1 if item.overlays else 0
        found += [
            Block(_name(item.buffer, copy, item.depth), item.start(copy), item.end(copy) - item.start(copy), level, number)
            for copy in range(item.depth)
        ]
    if space == "shared" and found:
        end = max(block.first + block.size for block in found)
        found.append(Block("barriers", end, schedule.shared_bytes - end, 0, len(found)))
    return found


def _name(buffer: str, copy: int, depth: int) -> str:
    return buffer if depth == 1 else f"{buffer}[{copy}]"


def memory_svg(schedule: Schedule, space: str, total: int) -> Element | None:
    """A bar as long as the memory, and a second one for what lies over others at another time; None where nothing lies there."""
    blocks = blocks_of(schedule, space)
    if not blocks:
        return None
    scale = WIDTH / total
    levels = 1 + max(block.level for block in blocks)
    height = levels * (HEIGHT + 4) + 20
    parts = [element("rect", x=0, y=0, width=WIDTH, height=HEIGHT, class_="frame"), *_drawn(blocks, scale, space)]
    used = max(block.first + block.size for block in blocks)
    ends = (
        element("text", "0", x=0, y=height - 4, class_="axis"),
        element("text", f"{used:,} of {total:,} {SIZES[space]}", x=WIDTH, y=height - 4, text_anchor="end", class_="axis"),
    )
    names = ", ".join(dict.fromkeys(block.name for block in blocks))
    return svg(WIDTH + 2, height, *parts, *ends, label=f"{space} memory: {names}", class_="memory")


def _drawn(blocks: list[Block], scale: float, space: str) -> Iterator[Element]:
    for block in blocks:
        x, y, width = block.first * scale, block.level * (HEIGHT + 4), max(block.size * scale, 1.0)
        rect = element("rect", x=x, y=y, width=width, height=HEIGHT, class_=f"block c{block.number % 6}")
        fits = width / LETTER >= len(block.name)
        name = element("text", block.name, x=x + width / 2, y=y + 19, text_anchor="middle", class_="inside") if fits else None
        about = f"{block.name}: {block.size:,} {SIZES[space]} from {block.first:,}"
        yield titled(element("g", rect, name), about + ("; over another buffer, at another time" if block.level else ""))
