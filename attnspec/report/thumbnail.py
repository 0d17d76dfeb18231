"""The mask as a small picture for pages of text: one outline a class, no script, light and dark."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from attnspec.report.elements import element, markup, svg
from attnspec.report.mask_picture import EMPTY, FULL, PARTIAL, Picture

EDGE = 192
STYLE = (
    ".empty{fill:#eef1f5}.partial{fill:#e0912f}.full{fill:#2f6db5}"
    "@media(prefers-color-scheme:dark){.empty{fill:#1f2731}.partial{fill:#d98a2b}.full{fill:#5b9be6}}"
)


def thumbnail(picture: Picture) -> str:
    """The picture as SVG text: queries downwards, keys to the right."""
    columns, rows = picture.columns, picture.rows
    scale = EDGE / max(columns, rows)
    paths = [outline(picture, kind) for kind in (EMPTY, PARTIAL, FULL)]
    tiles = element("g", *(path for path in paths if path is not None), transform=f"scale({scale:g})")
    label = ", ".join(f"{picture.count(kind)} tiles {kind}" for kind in (FULL, PARTIAL, EMPTY))
    return markup(svg(columns * scale, rows * scale, element("style", STYLE), tiles, label=label), "xml") + "\n"


def outline(picture: Picture, kind: str) -> Element | None:
    """All tiles of a class as one path, equal strips of rows below each other as one box."""
    boxes = list(joined(picture, kind))
    if not boxes:
        return None
    data = "".join(f"M{first} {top}h{last - first}v{bottom - top}h{first - last}z" for first, last, top, bottom in boxes)
    return element("path", class_=kind, d=data)


def joined(picture: Picture, kind: str) -> Iterator[tuple[int, int, int, int]]:
    """Boxes (first column, last, top row, bottom)."""
    open_boxes: dict[tuple[int, int], tuple[int, int]] = {}
    for row in range(picture.rows + 1):
        spans = set(spans_of(picture, kind, row))
        for columns in [columns for columns in open_boxes if columns not in spans]:
            top, bottom = open_boxes.pop(columns)
            yield (*columns, top, bottom)
        for columns in spans:
            top, _ = open_boxes.get(columns, (row, row))
            open_boxes[columns] = (top, row + 1)


def spans_of(picture: Picture, kind: str, row: int) -> Iterator[tuple[int, int]]:
    """Columns of a class in one row; strips that differ in their reasons alone are one."""
    start, end = -1, -1
    for strip in picture.strips:
        if strip.row != row or strip.kind != kind or strip.first == strip.last:
            continue
        if strip.first != end:
            if end >= 0:
                yield start, end
            start = strip.first
        end = strip.last
    if end >= 0:
        yield start, end
