"""Races on global memory between clusters that ran in different processes, each with a detector of its own.

Only kernels whose clusters cannot be ordered by anything run apart (`workers.is_independent`): so two accesses of one place by
clusters of two processes race if one of them is a write, whenever they were.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.emulator.hazards.ledger import POSITION, GlobalLedger
from attnspec.emulator.hazards.places import UNIT
from attnspec.emulator.report import Fault

Array = Any
KINDS = 3  # of a place: its last write, its last two reads
TOLD = 8  # places of a region that are looked at: one pair of instructions races in many


@dataclass(frozen=True)
class Touched:
    """Who touched each place of a region last: runs of places that one instruction of one agent touched.

    starts, who, at: (runs,) of each kind; who is `cluster << 24 | column`, at the position of the instruction, -1 for nobody.
    """

    places: int
    starts: tuple[Array, ...]
    who: tuple[Array, ...]
    at: tuple[Array, ...]

    def spread(self, kind: int) -> tuple[Array, Array]:
        """(who, at) of every place."""
        lengths = np.diff(np.append(self.starts[kind], self.places))
        return np.repeat(self.who[kind], lengths), np.repeat(self.at[kind], lengths)


def touched(regions: Mapping[int, GlobalLedger], clusters: Collection[int]) -> dict[int, Touched]:
    """What agents of some clusters did, by region."""
    return {start: _runs(ledger, np.fromiter(clusters, np.int64)) for start, ledger in regions.items()}


def _runs(ledger: GlobalLedger, clusters: Array) -> Touched:
    found: list[tuple[Array, Array, Array]] = []
    for kind in range(KINDS):
        who = ledger.who[kind]
        own = (ledger.stamps[kind] != 0) & np.isin(who >> 24, clusters)
        at = np.where(own, ledger.stamps[kind] & POSITION, -1)
        who = np.where(own, who, 0)
        first = np.ones(len(who), np.bool_)
        first[1:] = (who[1:] != who[:-1]) | (at[1:] != at[:-1])
        starts = np.flatnonzero(first)
        found.append((starts, who[starts], at[starts]))
    starts, who, at = zip(*found, strict=True)
    return Touched(len(ledger.who[0]), starts, who, at)


def tell_races(machine: Any, ours: Mapping[int, Touched], theirs: Mapping[int, Touched]) -> None:
    """Add a fault for each pair of instructions of which both touched a place and one wrote it."""
    told: set[tuple[int, int]] = set()
    for start in ours.keys() & theirs.keys():
        for mine in range(KINDS):
            for other in range(KINDS):
                if mine == 0 or other == 0:
                    _compare(machine, start, (ours[start].spread(mine), mine), (theirs[start].spread(other), other), told)


def _compare(machine: Any, start: int, mine: Any, other: Any, told: set[tuple[int, int]]) -> None:
    ((who, at), kind), ((whose, where), kind_of_other) = mine, other
    both = np.flatnonzero((at >= 0) & (where >= 0))
    _, first = np.unique(np.stack([at[both], where[both]]), axis=1, return_index=True) if len(both) else ((), ())
    for place in both[np.asarray(first[:TOLD], np.int64)]:
        pair = (int(at[place]), int(where[place]))
        if pair in told or pair[::-1] in told:
            continue
        told.add(pair)
        region = next(one for one in machine.memory.regions if one.start == start)
        one, two = (f"an agent of cluster {int(found[place]) >> 24}" for found in (who, whose))
        verbs = f"{'reads' if kind else 'writes'} {region.name}, byte {int(place) * UNIT + region.base - region.start},"
        done = "read" if kind_of_other else "written"
        message = f"{one} {verbs} {done} by the other: nothing orders the two"
        here = machine.site(one, pair[0])
        machine.add(Fault("race-global", message, here.line, here.text, one, here.source, machine.site(two, pair[1]), here.spec))
