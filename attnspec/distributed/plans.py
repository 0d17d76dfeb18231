"""Plans that are kept: by what they are made of, and by the number that a graph of torch's holds of one."""

from collections.abc import Hashable, Mapping
from hashlib import blake2b
from typing import Any

from torch import Tensor

from attnspec.distributed.job import Starts
from attnspec.distributed.load import Widths
from attnspec.distributed.plan import Plan, make_plan, ticketed
from attnspec.distributed.prepare import Layouts
from attnspec.distributed.visible import Sight

MOST_PLANS = 64  # that rest on sizes alone
MOST_VALUED = 4  # that rest on values: each holds them
MOST_GIVEN = 64  # given with calls whose backward is yet to come


class Plans:
    """Those of one context. What is made anew is the same plan again: which rank remembers what is of no matter."""

    def __init__(self) -> None:
        self.made: dict[Hashable, Plan] = {}
        self.valued: dict[Hashable, Plan] = {}
        self.given: dict[int, Plan] = {}

    def of(self, sight: Sight, widths: Widths, layouts: Layouts, starts: Starts) -> Plan:
        """The plan of a call."""
        kept, most = (self.valued, MOST_VALUED) if sight.tensors else (self.made, MOST_PLANS)
        key = sight.sizes, layouts, values_of(sight.tensors)
        if key not in kept:
            keep(kept, key, make_plan(sight, widths, *layouts, *starts), most)
        return kept[key]

    def by_ticket(self, ticket: Tensor | None) -> Plan | None:
        """The plan that a graph was given; it lives on for the backward. None for one that this process does not know."""
        if ticket is None:
            return None
        number = int(ticket)
        found = ticketed(number) or self.given.get(number)
        if found is not None and number not in self.given:
            keep(self.given, number, found, MOST_GIVEN)
        return found


def keep(kept: dict[Any, Plan], key: Hashable, plan: Plan, most: int) -> None:
    """One more, the oldest forgotten."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = plan


def values_of(tensors: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    """What differs where values do."""
    return tuple((name, array.shape, blake2b(array.tobytes(), digest_size=16).hexdigest()) for name, array in tensors.items())
