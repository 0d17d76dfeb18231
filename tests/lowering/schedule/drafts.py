"""Drafts to schedule, verify and corrupt."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, Literal

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.cost import price
from attnspec.lowering.schedule.place import draft
from attnspec.lowering.schedule.prices import Price, Prices
from attnspec.lowering.schedule.schedule import Channel, Draft, ProgramStep, Schedule
from attnspec.lowering.schedule.verify import verify

from tests.lowering.by_hand import analysed


def forward(head_dim: int = 128, head_dim_v: int | None = None, edges: Iterable[Value] = (), ctas: Literal[1, 2] = 1) -> Draft:
    """The forward as the passes schedule it, with further edges in its graph; for so many CTAs that share a work tile."""
    variant = analysed(head_dim, head_dim_v)
    graph = draw(variant, "forward", ctas=ctas)
    return draft(replace(graph, values=(*graph.values, *edges)), variant, LIMITS)


def prices_of(made: Draft, **choices: Any) -> Prices:
    """Prices of a step under other choices than the draft's."""
    variant = analysed(made.head_dim, made.head_dim_v)
    return price(made.dataflow, variant, replace(made.choices, **choices), LIMITS)


def verified(made: Draft) -> Schedule:
    """The draft, verified for a B200."""
    return verify(made, LIMITS, prices_of(made))


def channel(made: Draft, name: str) -> Channel:
    """The channel of that name."""
    return next(item for item in made.channels if item.name == name)


def without_channel(made: Draft, name: str) -> Draft:
    """The draft with a channel left out."""
    return replace(made, channels=tuple(item for item in made.channels if item.name != name))


def with_channel(made: Draft, name: str, **changes: Any) -> Draft:
    """The draft with fields of a channel changed; of all channels of a kind if the name has no query tile."""
    return replace(
        made, channels=tuple(replace(item, **changes) if _is_called(item.name, name) else item for item in made.channels)
    )


def _is_called(full: str, name: str) -> bool:
    return name in (full, full.partition("[")[0])


def with_role(made: Draft, name: str, **changes: Any) -> Draft:
    """The draft with fields of a role changed."""
    return replace(made, roles=tuple(replace(role, **changes) if role.name == name else role for role in made.roles))


def with_program(made: Draft, name: str, change: Callable[[list[ProgramStep]], Iterable[ProgramStep]]) -> Draft:
    """The draft with a role's program changed."""
    return replace(
        made,
        roles=tuple(
            replace(role, program=tuple(change(list(role.program)))) if role.name == name else role for role in made.roles
        ),
    )


def with_placement(made: Draft, buffer: str, **changes: Any) -> Draft:
    """The draft with fields of a placement changed."""
    return replace(
        made, placements=tuple(replace(item, **changes) if item.buffer == buffer else item for item in made.placements)
    )


def with_graph(made: Draft, change: Callable[[Dataflow], Dataflow]) -> Draft:
    """The draft for another graph."""
    return replace(made, dataflow=change(made.dataflow))


def stretched(prices: Prices, seed: int) -> Prices:
    """Other durations of all operations; those of seed 0 are the model's."""
    random = Random(seed)

    def longer(rows: tuple[tuple[str, Price], ...]) -> tuple[tuple[str, Price], ...]:
        factors = ((name, price, 1 + 4 * min(seed, 1) * random.random()) for name, price in rows)
        return tuple((name, replace(price, hold=price.hold * by, latency=price.latency * by)) for name, price, by in factors)

    return replace(prices, operations=longer(prices.operations), of_tile=longer(prices.of_tile))
