"""Draw docs/gallery.md and its pictures: `python tools/draw_gallery.py`. A test says when they are out of date."""

import sys
from collections.abc import Mapping
from pathlib import Path

from attnspec import stages, variants
from attnspec.cli.shape import CallShape
from attnspec.report.mask_picture import EMPTY, FULL, PARTIAL, Picture, picture_of
from attnspec.report.thumbnail import thumbnail

DOCS = Path(__file__).parent.parent / "docs"
LENGTH, LONG, SHORT = 4096, 16384, 2048
LENGTHS: Mapping[str, int] = {
    **dict.fromkeys(("gemma2_local", "sliding_window_causal", "chunked"), LONG),
    **dict.fromkeys(("sliding_window", "dilated", "longformer", "streaming_llm", "gpt_oss", "swin_shifted", "tree_mask"), SHORT),
}
INTRO = """\
# The standard variants

Every file comes with attnspec: its name can stand for the file on the command line (`attnc explain gemma2_local`), and
`attnspec.variants.path("gemma2_local")` is its path. The pictures are what the analysis found of each mask: queries go down,
keys to the right, a cell is a tile of 128 x 128. Blue tiles are seen whole and run no mask code, orange ones are masked element
by element, pale ones are never loaded. Tensors that a mask reads were drawn at random. `python tools/draw_gallery.py` makes
this page.
"""


def gallery() -> dict[str, str]:
    """Files below docs/, by name."""
    files = {}
    parts = [INTRO]
    for name in variants.names():
        analysed = stages.analyse(stages.read(variants.path(name)))
        group = analysed.spec.group or 1
        length = LENGTHS.get(name, LENGTH)
        picture = picture_of(analysed, CallShape(1, group * 2, 2, length, length))
        files[f"gallery/{name}.svg"] = thumbnail(picture)
        about, source = variants.describe(name)
        text = variants.path(name).read_text("utf-8").split("\n", 2)[2].strip()
        parts.append(
            f"## {name}\n\n{about}\nFrom {source}.\n\n"
            f"![mask of {name}](gallery/{name}.svg)\n\n{caption(picture)}\n\n```attn\n{text}\n```\n"
        )
    return {"gallery.md": "\n".join(parts), **files}


def caption(picture: Picture) -> str:
    """How many tiles of each class, and at which length."""
    counts = ", ".join(f"{picture.count(kind):,} {kind}" for kind in (FULL, PARTIAL, EMPTY))
    return f"At length {picture.shape.len_q:,}: {counts}."


def main() -> int:
    """Write all of it."""
    found = gallery()
    (DOCS / "gallery").mkdir(exist_ok=True)
    for old in (DOCS / "gallery").glob("*.svg"):
        if f"gallery/{old.name}" not in found:
            old.unlink()
    for name, text in found.items():
        (DOCS / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
