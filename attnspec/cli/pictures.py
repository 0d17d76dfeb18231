"""What `attnc explain` does when it is asked for pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli.invocation import current
from attnspec.cli.json_text import json_text
from attnspec.cli.shape import CallShape
from attnspec.language.text import decode

if TYPE_CHECKING:
    from attnspec.lowering.analysis.analysed import Analysed


def write_pictures(
    analysed: "Analysed", shape: CallShape, target: str, html: Path | None, png: Path | None, as_json: bool
) -> int:
    """Write the page, the picture, or both."""
    from attnspec.report.gather import gather
    from attnspec.report.page import page
    from attnspec.report.write import write_whole

    if png is not None:
        from attnspec.report.png import format_of

        format_of(png)
    facts = gather(text_given(), analysed, shape, target, compiles=html is not None)
    if html is not None:
        write_whole(html, "--html", lambda path: none(path.write_text(page(facts), encoding="utf-8")))
    if png is not None:
        from attnspec.report.png import write_png

        write_whole(png, "--png", lambda path: write_png(facts, path))
    written = [str(path) for path in (html, png) if path is not None]
    click.echo(json_text({"files": written}) if as_json else "\n".join(f"wrote {path}" for path in written))
    return 0


def none(written: int) -> None:
    """Nothing, of a function that gives a count."""


def text_given() -> str:
    """The file's text, as the spec was read from it."""
    given = current().spec
    data = given if isinstance(given, bytes) else given.read_bytes() if given is not None else b""
    return decode(data, "FILE")
