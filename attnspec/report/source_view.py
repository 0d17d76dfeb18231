"""The emitted source beside the spec: pointing at a line of one shows the lines of the other that belong to it."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from attnspec.backends.emitted import Module
from attnspec.language.source import NOWHERE, Span
from attnspec.report.elements import element


def source_view(spec: str, module: Module) -> Element:
    """Both texts with numbered lines; `data-spec` holds the number of the spec's line that a line came from."""
    lines = {number: line_of(spec, span) for number, span in module.spans.items() if span is not NOWHERE}
    return element(
        "div",
        element("div", element("h3", "spec"), listing(spec, "", {})),
        element("div", element("h3", module.file_name), listing(module.text, "emitted", lines)),
        class_="sources",
    )


def listing(text: str, kind: str, lines: Mapping[int, int | None]) -> Element:
    """A text, an element a line."""
    rows = []
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        link = number if not kind else lines.get(number)
        rows.append(element("span", f"{line}\n", class_="line", data_spec=link, data_n=number))
    return element("pre", element("code", *rows), class_=f"listing {kind}".strip(), tabindex=0)


def line_of(spec: str, span: Span) -> int | None:
    """Number of the line, from 1, of the file that a span begins in; None for a span of the standard library."""
    if span.source.text != spec:
        return None
    return spec.count("\n", 0, span.start) + 1
