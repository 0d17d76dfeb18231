"""Scaling as a picture: efficiency over GPUs, a line a variant, drawn as SVG by hand so that it needs no other package."""

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from attnspec.distributed.simulate import Point

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 60, 190, 40, 50
COLORS = ("#1f6fb2", "#c4572b", "#3b8f4c", "#7a4fa3")


def draw(found: "Sequence[Point]", title: str) -> str:
    """The SVG of the fastest point of each variant and number of GPUs."""
    ranks = sorted({point.ranks for point in found})
    low, high = log2(ranks[0]), max(log2(ranks[-1]), log2(ranks[0]) + 1)

    def x(count: int) -> float:
        return LEFT + (log2(count) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    parts = [text(LEFT, 22, f"efficiency of forward and backward; {title}", "start")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(line([(LEFT, y(share)), (WIDTH - RIGHT, y(share))], "#d5d5d5", 1))
        parts.append(text(LEFT - 8, y(share) + 4, f"{share:.0%}", "end"))
    parts += [text(x(count), HEIGHT - BOTTOM + 20, str(count), "middle") for count in ranks]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "GPUs", "middle"))
    labels: list[float] = []
    for number, variant in enumerate(dict.fromkeys(point.variant for point in found)):
        best = [min((p for p in found if (p.variant, p.ranks) == (variant, count)), key=lambda p: p.seconds) for count in ranks]
        color = COLORS[number % len(COLORS)]
        parts.append(line([(x(point.ranks), y(point.efficiency)) for point in best], color, 2))
        parts += [f'<circle cx="{x(p.ranks):.1f}" cy="{y(p.efficiency):.1f}" r="3" fill="{color}"/>' for p in best]
        height = y(best[-1].efficiency) + 4
        while any(abs(height - other) < 14 for other in labels):
            height += 14
        labels.append(height)
        parts.append(text(WIDTH - RIGHT + 10, height, variant, "start", color))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, anchor: str, color: str = "#333333") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(words)}</text>'


def line(places: Sequence[tuple[float, float]], color: str, width: int) -> str:
    """A line through places."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="{width}"/>'
