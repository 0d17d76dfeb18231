"""What each role does when, over a few steps of the steady loop, by the cost model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from attnspec.lowering.schedule.pair import both, names_of_first, prices_of_both
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.lowering.schedule.simulate import simulate
from attnspec.report.elements import element, svg, titled

WARM_UP = 6  # steps before the loop is steady
SHOWN = 3  # steps drawn
STEPS = WARM_UP + SHOWN + 3
WIDTH = 860.0
LEFT = 96.0
LANE = 26.0
BAR = 18.0
LETTER = 6.4  # width of a letter of a bar's text


@dataclass(frozen=True)
class Bar:
    """One run of an operation; cycles from the left end of the picture. phase: of the operation, for its colour."""

    role: str
    operation: str
    step: int
    start: float
    cycles: float
    unit: str
    is_critical: bool


@dataclass(frozen=True)
class Timeline:
    """Bars by role, in `roles`' order, over so many cycles; step_cycles: from one step to the next."""

    roles: tuple[str, ...]
    bars: tuple[Bar, ...]
    cycles: float
    step_cycles: float


def timeline_of(schedule: Schedule) -> Timeline:
    """A simulation of the verified schedule on its own prices; of a pair of CTAs, what the first does."""
    draft, prices = schedule.proof.draft, schedule.proof.prices
    names = names_of_first(draft)
    run = simulate(both(draft), prices_of_both(draft, prices), (STEPS,))
    starts = [(replace(key, operation=names[key.operation]), at) for key, at in run.starts.items() if key.operation in names]
    critical = {name for name, _ in schedule.proof.critical}
    step_cycles = schedule.proof.interval
    steady = [at for key, at in starts if key.step == WARM_UP and key.operation in critical]
    first = min(steady, default=0.0)
    cycles = SHOWN * step_cycles
    bars = []
    for key, start in starts:
        price = prices.of(key.operation)
        inside = start + price.hold > first and start < first + cycles
        if key.step is not None and price.hold and inside:
            role = schedule.role_of(key.operation).name
            unit = max(zip(price.units, _units(), strict=True))[1] if any(price.units) else ""
            bars.append(Bar(role, key.operation, key.step, start - first, price.hold, unit, key.operation in critical))
    roles = tuple(role.name for role in schedule.roles if any(bar.role == role.name for bar in bars))
    return Timeline(roles, tuple(sorted(bars, key=lambda bar: bar.start)), cycles, step_cycles)


def _units() -> tuple[str, ...]:
    from attnspec.lowering.schedule.prices import UNITS

    return UNITS


def timeline_svg(timeline: Timeline, bottleneck: str) -> Element:
    """A lane a role; operations on the critical circle are framed, those of the busiest unit are striped below."""
    scale = (WIDTH - LEFT) / max(timeline.cycles, 1.0)
    height = 28 + LANE * len(timeline.roles) + 22
    parts: list[Element] = list(_grid(timeline, scale, height))
    for lane, role in enumerate(timeline.roles):
        top = 28 + lane * LANE
        parts.append(element("text", role, x=LEFT - 8, y=top + 14, text_anchor="end", class_="axis"))
        parts.append(element("line", x1=LEFT, x2=WIDTH, y1=top + LANE - 3, y2=top + LANE - 3, class_="rule"))
        parts += [_bar(bar, timeline, scale, top, bottleneck) for bar in timeline.bars if bar.role == role]
    label = f"{SHOWN} steps of {timeline.step_cycles:.0f} cycles: {', '.join(timeline.roles)}"
    return svg(WIDTH + 2, height, *parts, label=label, class_="timeline")


def _grid(timeline: Timeline, scale: float, height: float) -> Iterator[Element]:
    for step in range(SHOWN + 1):
        x = LEFT + step * timeline.step_cycles * scale
        anchor = "middle" if step < SHOWN else "end"
        yield element("line", x1=x, x2=x, y1=20, y2=height - 18, class_="step")
        yield element("text", f"{step * timeline.step_cycles:,.0f}", x=x, y=14, text_anchor=anchor, class_="axis")
    yield element("text", "cycles, from where a step of the steady loop begins", x=LEFT, y=height - 4, class_="axis")


def _bar(bar: Bar, timeline: Timeline, scale: float, top: float, bottleneck: str) -> Element:
    start, end = max(bar.start, 0.0), min(bar.start + bar.cycles, timeline.cycles)
    width = max((end - start) * scale, 1.0)
    x = LEFT + start * scale
    classes = f"bar k{bar.step % 2} {'critical' if bar.is_critical else ''} {'busiest' if bar.unit == bottleneck else ''}"
    rect = element("rect", x=x, y=top, width=width, height=BAR, rx=2, class_=" ".join(classes.split()))
    about = f"{bar.operation}, step {bar.step}: {bar.cycles:.0f} cycles" + (f", most of them on {bar.unit}" if bar.unit else "")
    about += "; on the critical circle" if bar.is_critical else ""
    fits = int(width / LETTER) >= len(bar.operation)
    name = element("text", bar.operation, x=x + 4, y=top + 13, class_="inside") if fits else None
    return titled(element("g", rect, name), about)
