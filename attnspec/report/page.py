"""The page: sections in the order of the compiler's walk, one file that needs no other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from attnspec import __version__
from attnspec.cli.explain import masked_prices, show_count
from attnspec.cli.shape import CallShape
from attnspec.cli.summary import spec_title
from attnspec.lowering.analysis.analysed import Analysed, LearnedGradient
from attnspec.lowering.analysis.show import show_reads, show_walk
from attnspec.lowering.schedule.prices import UNITS
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.report.elements import element, markup
from attnspec.report.formulas import Typesetter, row, sign, word
from attnspec.report.graph_picture import graph_svg
from attnspec.report.mask_picture import FULL, PARTIAL, Picture, mask_svg
from attnspec.report.memory_maps import memory_svg
from attnspec.report.source_view import source_view
from attnspec.report.timeline import timeline_of, timeline_svg

if TYPE_CHECKING:
    from attnspec.backends.emitted import Emitted
    from attnspec.cli.count import Count
    from attnspec.lowering.schedule.limits import Limits


@dataclass(frozen=True)
class KernelFacts:
    """One kernel of the page. census: PTX instructions by sort, or why there is none. machine: what ptxas made of it."""

    title: str
    schedule: Schedule
    emitted: "Emitted"
    limits: "Limits"
    census: Mapping[str, int] | str
    machine: str = ""


@dataclass(frozen=True)
class Facts:
    """What the page shows. text: of the file as given; kernels: those that there are, or the reason why one is not."""

    text: str
    analysed: Analysed
    shape: CallShape
    picture: "Picture | str"
    counted: "Count | str"
    kernels: tuple[KernelFacts | str, ...]


def page(facts: Facts) -> str:
    """The whole page as HTML."""
    spec = facts.analysed.spec
    sections = [
        section("The variant", listing_of(facts.text), id="variant"),
        section("Tiles", *mask_parts(facts), id="tiles"),
        section("Score and derivatives", *formula_parts(facts.analysed), id="score"),
    ]
    for number, kernel in enumerate(facts.kernels):
        sections.append(kernel_section(facts, kernel, f"kernel{number}"))
    links = [element("a", found.find("h2").text, href=f"#{found.get('id')}") for found in sections]  # type: ignore[union-attr]
    body = element(
        "body",
        element("header", element("h1", spec.name), element("p", spec_title(spec)), element("nav", *links)),
        element("main", *sections),
        element("footer", f"attnspec {__version__}. Cycles are the cost model's; counts are of the emitted PTX."),
        element("script", asset("page.js")),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{spec.name}: attnspec"),
        element("style", asset("page.css")),
    )
    return "<!doctype html>\n" + markup(element("html", head, body, lang="en")) + "\n"


def asset(name: str) -> str:
    return (files("attnspec.report") / name).read_text(encoding="utf-8")


def section(title: str, *parts: Element | None, id: str) -> Element:
    return element("section", element("h2", title), *parts, id=id)


def wide(part: Element | None) -> Element | None:
    """A part that may be wider than the screen and then scrolls by itself."""
    return None if part is None else element("div", part, class_="scroll", tabindex=0)


def listing_of(text: str) -> Element:
    return element("pre", element("code", text.rstrip("\n")), class_="listing", tabindex=0)


def words_of(text: str) -> Element:
    return element("pre", text, class_="words", tabindex=0)


def mask_parts(facts: Facts) -> list[Element | None]:
    """The picture with its legend, the counts, and the ranges that it was made of."""
    counts = words_of(show_count(facts.counted, facts.shape))
    ranges = words_of("\n\n".join(show_walk(walk) for walk in (facts.analysed.keys, facts.analysed.queries)))
    details = element("details", element("summary", "Ranges, as the kernels compute them"), ranges)
    if isinstance(facts.picture, str):
        return [element("p", facts.picture), counts, details]
    found = facts.picture
    legend = element("ul", *(
        element("li", element("span", class_=f"swatch {kind}"), f"{kind}: {meaning}") for kind, meaning in
        ((FULL, "no mask code runs"), (PARTIAL, "elements are masked"), ("empty", "skipped, never loaded"))
    ), class_="legend")  # fmt: skip
    of = "all heads" if found.is_for_all_heads else f"batch {found.head[0]}, head {found.head[1]} of several"
    caption = f"Tiles of {found.tile} x {found.tile} ({of}). Point at one to see why."
    note = element("p", "Assumed " + "; ".join(found.assumed), class_="note") if found.assumed else None
    figure = element("figure", wide(mask_svg(found)), element("figcaption", caption, legend), class_="maskfigure")
    return [figure, note, counts, details]


def formula_parts(analysed: Analysed) -> list[Element | None]:
    """What happens to a score, its derivatives, bounds and reads."""
    spec, derivative = analysed.spec, analysed.derivative
    set_ = Typesetter().set
    lines = [
        equation(word("s′"), set_(spec.score)),
        equation(element("mfrac", row(sign("∂"), word("s′")), row(sign("∂"), word("s"))), set_(derivative.score)),
    ]
    for of, gradients in (("s′", derivative.learned), ("sink", derivative.sink)):
        lines += [equation(quotient(of, gradient), set_(gradient.partial)) for gradient in gradients]
    visible = [equation(word("visible"), set_(spec.mask))] if spec.mask is not None else []
    sink = [equation(word("sink"), set_(spec.sink))] if spec.sink is not None else []
    about = "s is the scaled score σ · (q · k), s′ what the softmax takes; of the sizes L stands for lengths, H for heads."
    return [
        element("p", about, class_="note"),
        *(wide(line) for line in (*lines, *visible, *sink)),
        element("p", analysed.bounds.reason),
        words_of(show_reads(analysed)),
    ]


def equation(left: Element, right: Element) -> Element:
    return element("math", row(left, sign("="), right), display="block")


def quotient(of: str, gradient: LearnedGradient) -> Element:
    place = Typesetter().indexed(gradient.tensor, gradient.indices)
    return element("mfrac", row(sign("∂"), word(of)), row(sign("∂"), place))


def kernel_section(facts: Facts, kernel: KernelFacts | str, id: str) -> Element:
    """All that is known of one kernel."""
    if isinstance(kernel, str):
        title, _, reason = kernel.partition(": ")
        return section(title, element("p", reason), id=id)
    schedule, limits = kernel.schedule, kernel.limits
    proof = schedule.proof
    bound = (
        f"A step of {schedule.dataflow.lanes} tiles of scores takes {proof.step_cycles:,.0f} cycles; the busiest unit, "
        f"{proof.prices.bottleneck}, works {proof.prices.total(proof.prices.bottleneck):,.0f} of them, and the hand-overs "
        f"on the critical circle take {proof.interval:,.0f}."
    )
    masked = masked_prices(facts.analysed, schedule, schedule.target)
    parts: list[tuple[str, Callable[[], Element | None]]] = [
        ("Units", lambda: units_table(schedule, masked)),
        ("Timeline", lambda: wide(timeline_svg(timeline_of(schedule), proof.prices.bottleneck))),
        ("Dataflow", lambda: wide(graph_svg(schedule))),
        ("Shared memory", lambda: wide(memory_svg(schedule, "shared", limits.shared_bytes))),
        ("Tensor memory", lambda: wide(memory_svg(schedule, "tensor", limits.tensor_columns))),
        ("PTX", lambda: census_table(kernel.census)),
        ("Machine code", lambda: element("p", kernel.machine) if kernel.machine else None),
    ]
    shown = [(name, part()) for name, part in parts]
    views = [source_view(facts.text, module) for module in kernel.emitted.modules]
    return section(
        kernel.title,
        element("p", bound),
        *(found for name, part in shown if part is not None for found in (element("h3", name), part)),
        element("h3", "Source"),
        element("p", "Point at a line to see where it came from.", class_="note"),
        *views,
        id=id,
    )


def units_table(schedule: Schedule, masked: "object | None") -> Element:
    """Busy cycles of each unit a step, as bars against the step."""
    proof = schedule.proof
    columns = [proof.prices, *([masked] if masked is not None else [])]
    most = max(proof.step_cycles, *(column.total(unit) for column in columns for unit in UNITS))  # type: ignore[attr-defined]
    head = ["unit", "cycles a step", *(["where the mask runs"] if masked is not None else [])]
    rows = []
    for unit in UNITS:
        cells = [element("td", bar(column.total(unit), most, unit == proof.prices.bottleneck)) for column in columns]  # type: ignore[attr-defined]
        rows.append(element("tr", element("th", unit.replace("_", " "), scope="row"), *cells))
    return element("div", table(head, rows), class_="scroll", tabindex=0)


def bar(cycles: float, most: float, is_busiest: bool) -> Element:
    style = f"width:{100 * cycles / most:.1f}%"
    kind = "meter busiest" if is_busiest else "meter"
    return element("div", element("span", class_=kind, style=style), element("b", f"{cycles:,.0f}"), class_="cell")


def table(head: list[str], rows: list[Element]) -> Element:
    first = element("tr", *(element("th", name, scope="col") for name in head))
    return element("table", element("thead", first), element("tbody", *rows))


def census_table(census: Mapping[str, int] | str) -> Element:
    """Instructions of the emitted PTX by sort."""
    if isinstance(census, str):
        return element("p", census)
    rows = [element("tr", element("th", sort, scope="row"), element("td", f"{number:,}")) for sort, number in census.items()]
    return element("div", table(["instructions", "in the PTX"], rows), class_="scroll", tabindex=0)
