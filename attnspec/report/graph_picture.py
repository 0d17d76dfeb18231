"""The dataflow graph: a column a role, operations from top to bottom in the order of their dependences."""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import networkx as nx

from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.report.elements import element, svg, titled

COLUMN = 140.0
ROW = 46.0
WIDE, HIGH = 116.0, 26.0
TOP = 34.0


@dataclass(frozen=True)
class Spot:
    """Where an operation is drawn: the middle of its box."""

    x: float
    y: float


def graph_svg(schedule: Schedule) -> Element:
    """Boxes and arrows. A dashed arrow goes to a later step."""
    flow = schedule.dataflow
    columns = [role for role in schedule.roles if role.program]
    spots = spots_of(schedule)
    critical = {name for name, _ in schedule.proof.critical}
    width = COLUMN * len(columns)
    height = TOP + ROW * (1 + max((spot.y - TOP) / ROW for spot in spots.values()))
    parts = [element("text", role.name, x=COLUMN * (at + 0.5), y=18, text_anchor="middle", class_="head")
             for at, role in enumerate(columns)]  # fmt: skip
    parts += _arrows(flow.values, spots)
    for operation in flow.operations:
        spot = spots[operation.name]
        kind = f"node {operation.engine} {'critical' if operation.name in critical else ''}".strip()
        rect = element("rect", x=spot.x - WIDE / 2, y=spot.y - HIGH / 2, width=WIDE, height=HIGH, rx=5, class_=kind)
        name = element("text", operation.name, x=spot.x, y=spot.y + 4, text_anchor="middle", class_="inside")
        about = f"{operation.name}: {operation.engine}, once a {operation.rate}" + (
            f"; {operation.note}" if operation.note else ""
        )
        parts.append(titled(element("g", rect, name), about))
    return svg(width, height, *parts, label=f"{len(flow.operations)} tile operations in {len(columns)} roles", class_="graph")


def spots_of(schedule: Schedule) -> dict[str, Spot]:
    """The column is the role's; the row is below all that an operation needs of the same step, and below its column's last."""
    flow = schedule.dataflow
    order: nx.DiGraph = nx.DiGraph()
    order.add_nodes_from(operation.name for operation in flow.operations)
    order.add_edges_from((value.producer, value.consumer) for value in flow.values if value.distance == 0)
    columns = {step.operation: at for at, role in enumerate(r for r in schedule.roles if r.program) for step in role.program}
    free = dict.fromkeys(columns.values(), 0)
    rows: dict[str, int] = {}
    for name in nx.lexicographical_topological_sort(order, key=lambda name: list(columns).index(name)):
        below = max((rows[before] + 1 for before in order.predecessors(name)), default=0)
        rows[name] = max(below, free[columns[name]])
        free[columns[name]] = rows[name] + 1
    return {name: Spot(COLUMN * (columns[name] + 0.5), TOP + ROW * (rows[name] + 0.5)) for name in rows}


def _arrows(values: tuple[Value, ...], spots: dict[str, Spot]) -> Iterator[Element]:
    for value in values:
        start, end = spots[value.producer], spots[value.consumer]
        place = f"in {value.buffer}" if value.buffer else "order alone"
        later = f", {value.distance} step later" if value.distance else ""
        about = f"{value.producer} to {value.consumer}: {value.name or 'value'} {place}{later}"
        kind = "arrow later" if value.distance else "arrow"
        yield titled(element("path", d=_curve(start, end), class_=kind), about)


def _curve(start: Spot, end: Spot) -> str:
    """From the bottom of one box to the top of another; up the side where it goes back."""
    y1, y2 = start.y + HIGH / 2, end.y - HIGH / 2
    if y2 >= y1:
        bend = max((y2 - y1) / 2, 8.0)
        return f"M{start.x:.1f} {y1:.1f}C{start.x:.1f} {y1 + bend:.1f} {end.x:.1f} {y2 - bend:.1f} {end.x:.1f} {y2:.1f}"
    side = 1 if end.x >= start.x else -1
    x1, x2 = start.x + side * WIDE / 2, end.x + (side if start.x == end.x else -side) * WIDE / 2
    reach = side * 22
    return f"M{x1:.1f} {start.y:.1f}C{x1 + reach:.1f} {start.y:.1f} {x2 + reach:.1f} {end.y:.1f} {x2:.1f} {end.y:.1f}"
