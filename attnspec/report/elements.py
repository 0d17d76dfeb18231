"""HTML, SVG and MathML elements: the standard library's tree does the quoting."""

from collections.abc import Iterable
from typing import Literal
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None


def element(tag: str, *children: Child | Iterable[Child], **attributes: object) -> Element:
    """An element. Attribute names: `_` stands for `-`, a trailing one is dropped (`class_`); None leaves an attribute out."""
    found = Element(tag, {name.rstrip("_").replace("_", "-"): text(at) for name, at in attributes.items() if at is not None})
    last: Element | None = None
    for child in flat(children):
        if isinstance(child, Element):
            found.append(child)
            last = child
        elif last is None:
            found.text = (found.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return found


def flat(children: Iterable[Child | Iterable[Child]]) -> Iterable[Element | str]:
    """Children of children, without None. An element is one child, though the tree lets it be iterated over."""
    for child in children:
        if isinstance(child, Element | str):
            yield child
        elif child is not None:
            yield from flat(child)


def text(value: object) -> str:
    """A number without digits that no screen shows."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def markup(found: Element, method: Literal["html", "xml"] = "html") -> str:
    """The element as text; method "xml" for a file of its own."""
    return tostring(found, encoding="unicode", method=method)


def svg(width: float, height: float, *children: Child | Iterable[Child], label: str, **attributes: object) -> Element:
    """A picture that keeps its proportions. label: what it shows, for those who do not see it."""
    size = {"viewBox": f"0 0 {text(width)} {text(height)}", "xmlns": "http://www.w3.org/2000/svg"}
    found = element("svg", *children, role="img", aria_label=label, width=float(width), height=float(height), **attributes)
    for name, value in size.items():
        found.set(name, value)
    return found


def titled(found: Element, title: str) -> Element:
    """The element with a text that shows where the pointer rests on it."""
    found.insert(0, element("title", title))
    return found
