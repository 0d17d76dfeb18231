"""The solution of a question: shipped with the package, remembered from an earlier search, or searched for now.

A question is known by its graph, its prices (and so by the cost table), the chip, and the version of the search. What the variant
itself costs an element, its score and its mask, counts by powers of two: it does not change who waits for whom.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from attnspec.lowering.dataflow.graph import Dataflow, Value
from attnspec.lowering.schedule.complete import find_depths
from attnspec.lowering.schedule.prices import Price, Prices
from attnspec.lowering.schedule.search import Question, search
from attnspec.lowering.schedule.solution import Solution, solution_as_dict, solution_from_dict

VERSION = 4  # of the search: the next one may find other solutions
TURNS_VERSION = 2
SHIPPED = "solved.json"
OWN = ("score", "mask")  # kinds of operations that cost what the variant's file says
UNIT = 128.0  # cycles of a tile at one instruction an element


class Memory(Protocol):
    """Where solutions are kept from one process to the next."""

    def find(self, key: str) -> Mapping[str, Any] | None:
        """What is kept under a key."""
        ...

    def keep(self, key: str, data: Mapping[str, Any]) -> None:
        """Keep it."""
        ...


def find_solution(
    question: Question, memory: Memory | None = None, tell: Callable[[str], None] = lambda text: None
) -> tuple[Solution, str]:
    """The solution and where it comes from: shipped, remembered, searched. It is for `verify` to prove it, always."""
    question = rounded(question)
    key = key_of(question)
    places = {"shipped": shipped().get, "remembered": memory.find if memory is not None else lambda key: None}
    for source, find in places.items():
        data = find(key)
        solution = _read(data, question.dataflow) if data else None
        if solution is not None:
            return solution, source
    return search_and_keep(question, memory, tell), "searched"


def _read(data: Mapping[str, Any], dataflow: Dataflow) -> Solution | None:
    """A kept solution; None if it is damaged, or runs other operations than the graph has."""
    try:
        solution = solution_from_dict(data)
    except (KeyError, TypeError, ValueError):
        return None
    run = sorted(step.operation for role in solution.roles for step in role.program)
    return solution if run == sorted(operation.name for operation in dataflow.operations) else None


def search_and_keep(question: Question, memory: Memory | None, tell: Callable[[str], None]) -> Solution:
    """The solution of a new question."""
    key = key_of(question)
    if key not in _found:
        _found[key] = search(question, tell).solution
    if memory is not None:
        memory.keep(key, solution_as_dict(_found[key]))
    return _found[key]


_found: dict[str, Solution] = {}


def rounded(question: Question) -> Question:
    """The question with the variant's own operations at prices of 0, 128, 256, 512, ... cycles a tile."""
    return replace(question, expected=_rounded(question, question.expected), worst=_rounded(question, question.worst))


def _rounded(question: Question, prices: Prices) -> Prices:
    kinds = {operation.name: operation.kind for operation in question.dataflow.operations}
    steps = ((name, _up(price) if kinds[name] in OWN else price) for name, price in prices.operations)
    return replace(prices, operations=tuple(steps))


def _up(price: Price) -> Price:
    """The next power of two; units grow alike."""
    if price.hold <= 0:
        return price
    hold = UNIT
    while hold < price.hold:
        hold *= 2
    stretch = hold / price.hold
    return Price(hold, hold, tuple(cycles * stretch for cycles in price.units))


def key_of(question: Question) -> str:
    """A digest of all that a search looks at."""
    flow = question.dataflow
    facts = {
        "version": VERSION,
        "graph": [
            [[item.name, item.engine, item.rate, item.query_tile] for item in flow.operations],
            [[item.name, item.space, item.size if item.space == "tensor" else 0] for item in flow.buffers],
            [_value(item) for item in flow.values],
            [flow.direction, flow.tile_q, flow.tile_kv, flow.query_tiles, flow.key_tiles, *_ctas(flow)],
        ],
        "depths": find_depths(flow, question.dims, question.limits),
        "prices": [_numbers(question.expected), _numbers(question.worst)],
        "limits": {**asdict(question.limits), "role_kinds": sorted(question.limits.role_kinds or ())},
        "kinds": None if question.kinds is None else sorted(question.kinds),
        **_turns(question),
        **_together(flow),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _value(value: Value) -> dict[str, Any]:
    """An edge; one that stays in its CTA, and is always waited for, has the key that it had before there were others."""
    return {name: found for name, found in asdict(value).items() if name not in ("spreads", "seldom") or found}


def _ctas(dataflow: Dataflow) -> list[int]:
    """What a pair of CTAs adds to the key; one CTA keeps the key that it had before there were pairs."""
    return [dataflow.ctas] if dataflow.ctas > 1 else []


def _turns(question: Question) -> dict[str, int]:
    """What warpgroups that multiply in turn add to the key: the version of how turns are searched."""
    return {"turns": TURNS_VERSION} if question.choices.takes_turns else {}


def _together(dataflow: Dataflow) -> dict[str, object]:
    """What operations that are run as one add to the key."""
    return {"together": dataflow.together} if dataflow.together else {}


def _numbers(prices: Prices) -> list[Any]:
    """Prices to a hundredth of a cycle, so that no key hangs on the last bit of a sum."""
    rows = [*prices.operations, *prices.of_tile, ("hand-off", Price(prices.hand_off, 0.0))]
    return [[name, [round(number, 2) for number in (price.hold, price.latency, *price.units)]] for name, price in rows]


@cache
def shipped() -> Mapping[str, Mapping[str, Any]]:
    """Solutions by key, out of the package's own file."""
    data = json.loads(files("attnspec.lowering.schedule").joinpath(SHIPPED).read_text())
    return {key: data["solutions"][index] for key, index in data["questions"].items()}
