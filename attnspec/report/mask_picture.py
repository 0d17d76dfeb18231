"""The mask as a picture of tiles: skipped, masked, or seen whole, each with the reason that the analysis has."""

import itertools
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from attnspec.cli.count import TILE, draw, extents_of, heads_to_count, sizes_of, tensors_of_mask
from attnspec.cli.shape import CallShape
from attnspec.lowering.analysis.analysed import Analysed, Range
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.tiles import tile_range
from attnspec.report.elements import element, svg, titled

MOST = 64  # tiles along an edge of the picture; longer axes are drawn with larger tiles
EDGE = 448.0
MARGIN = 40.0
EMPTY, PARTIAL, FULL = "empty", "partial", "full"


@dataclass(frozen=True)
class Strip:
    """Neighbouring tiles of one class for the same reasons, of one query tile."""

    row: int
    first: int
    last: int
    kind: str
    reason: str


@dataclass(frozen=True)
class Picture:
    """Strips of all query tiles. tile: rows and keys of a tile; head: (b, h) it is of; assumed: of tensors that were drawn."""

    strips: tuple[Strip, ...]
    tile: int
    shape: CallShape
    head: tuple[int, int]
    is_for_all_heads: bool
    assumed: tuple[str, ...]

    @property
    def rows(self) -> int:
        return -(-self.shape.len_q // self.tile)

    @property
    def columns(self) -> int:
        return -(-self.shape.len_kv // self.tile)

    def count(self, kind: str) -> int:
        """Tiles of a class."""
        return sum(strip.last - strip.first for strip in self.strips if strip.kind == kind)


def picture_of(analysed: Analysed, shape: CallShape) -> Picture:
    """Tiles of the first head, of 128 x 128 elements or, where there would be too many, of a larger power of two."""
    tile = TILE
    while max(shape.len_q, shape.len_kv) > tile * MOST:
        tile *= 2
    arrays, assumed = {}, []
    for tensor in tensors_of_mask(analysed):
        arrays[tensor.name], how = draw(tensor, extents_of(tensor, shape), sizes_of(shape))
        assumed.append(f"`{tensor.name}`: {how}")
    heads = list(heads_to_count(analysed, shape))
    env = Env(names_for(*heads[0], **sizes_of(shape)), arrays)
    return Picture(_strips(analysed, shape, tile, env), tile, shape, heads[0], len(heads) == 1, tuple(assumed))


def _strips(analysed: Analysed, shape: CallShape, tile: int, env: Env) -> tuple[Strip, ...]:
    rows = np.arange(-(-shape.len_q // tile), dtype=np.int64)
    columns = -(-shape.len_kv // tile)
    env = env.with_names(q_first=rows * tile, q_last=np.minimum((rows + 1) * tile, shape.len_q) - 1)
    walk = analysed.keys
    seen, hidden = ([tile_range(item, env, rows, tile, shape.len_kv) for item in part] for part in (walk.seen, walk.hidden))
    found: list[Strip] = []
    for row in rows.tolist():
        cuts = {0, columns}
        for first, last in (*seen, *hidden):
            cuts |= {min(int(first[row]), columns), min(int(last[row]), columns)}
        edges = sorted(cuts)
        for first, last in itertools.pairwise(edges):
            shows = [item for item, ends in zip(walk.seen, seen, strict=True) if _covers(ends, row, first, last)]
            hides = [item for item, ends in zip(walk.hidden, hidden, strict=True) if _covers(ends, row, first, last)]
            found.append(Strip(row, first, last, *_class_of(shows, hides)))
    return tuple(found)


def _covers(ends: tuple[np.ndarray, np.ndarray], row: int, first: int, last: int) -> bool:
    return bool(ends[0][row] <= first and last <= ends[1][row])


def _class_of(shows: list[Range], hides: list[Range]) -> tuple[str, str]:
    """The class of tiles that these ranges cover, and why."""
    if not shows:
        return EMPTY, "no key here is visible: never loaded"
    visible = " or ".join(dict.fromkeys(item.reason for item in shows))
    if hides:
        return (
            PARTIAL,
            f"visible where {visible}; some elements masked, where {' or '.join(dict.fromkeys(i.reason for i in hides))}",
        )
    return FULL, f"all visible ({visible}): no mask code runs"


def mask_svg(picture: Picture) -> Element:
    """Queries downwards, keys to the right."""
    cell = EDGE / max(picture.rows, picture.columns)
    width, height = picture.columns * cell, picture.rows * cell
    strips = [_strip(picture, strip, cell) for strip in picture.strips]
    frame = element("rect", x=0, y=0, width=width, height=height, class_="frame")
    inner = element("g", *strips, frame, transform=f"translate({MARGIN:g} {MARGIN / 2 + 8:g})")
    words = (
        element("text", f"keys 0 to {picture.shape.len_kv - 1:,}", x=MARGIN, y=16, class_="axis"),
        element("text", f"queries 0 to {picture.shape.len_q - 1:,}", class_="axis",
                transform=f"translate(26 {MARGIN / 2 + 8:g}) rotate(90)"),
    )  # fmt: skip
    label = "mask by tiles: " + ", ".join(f"{picture.count(kind)} {kind}" for kind in (FULL, PARTIAL, EMPTY))
    return svg(width + MARGIN + 2, height + MARGIN, *words, inner, label=label, class_="mask")


def _strip(picture: Picture, strip: Strip, cell: float) -> Element:
    tile, shape = picture.tile, picture.shape
    keys = f"keys {strip.first * tile:,} to {min(strip.last * tile, shape.len_kv) - 1:,}"
    rows = f"queries {strip.row * tile:,} to {min((strip.row + 1) * tile, shape.len_q) - 1:,}"
    place = {"x": strip.first * cell, "y": strip.row * cell, "width": (strip.last - strip.first) * cell, "height": cell}
    return titled(element("rect", class_=f"tile {strip.kind}", **place), f"{rows}, {keys}\n{strip.kind}: {strip.reason}")
