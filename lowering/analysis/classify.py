"""Tile classes as exact as they can be had: the walk's own where it is exact, else the partial tiles looked at once more.

The closed form of a walk keeps what it does not understand: `%`, tables, bits. Three ways to look again, in this order:
a mask of q - kv alone is evaluated once a distance; a mask that repeats every n positions once a distinct tile; any other mask
on every element of the tiles in question. A budget of elements bounds the work; past it the walk's classes stay, and say so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.evaluate import Array, Env
from attnspec.lowering.analysis.invariance import shift_period
from attnspec.lowering.analysis.look import Look
from attnspec.lowering.analysis.tiles import Runs, joined, tiles

BUDGET = 2**26  # mask elements evaluated
TILES_AT_A_TIME = 2**18


@dataclass(frozen=True)
class Classes:
    """Runs that equal brute force if `exact`, else are never too small; `reason` says how they were found."""

    runs: Runs
    exact: bool
    reason: str


def classify(
    analysed: Analysed,
    axis: Literal["kv", "q"],
    tile_q: int,
    tile_kv: int,
    len_q: int,
    len_kv: int,
    env: Env,
    budget: int = BUDGET,
) -> Classes:
    """Classes of all tiles of one head, walked along `axis`; `env` as for `tiles`."""
    walk = analysed.keys if axis == "kv" else analysed.queries
    runs = tiles(walk, tile_q, tile_kv, len_q, len_kv, env)
    mask = analysed.spec.mask
    if walk.exact or mask is None:
        return Classes(runs, True, "in closed form")
    look = Look(mask, shift_period(mask), (tile_q, tile_kv), (len_q, len_kv), env, budget)
    found = refined(runs, look, axis)
    if found is None:
        return Classes(runs, False, "; ".join(walk.notes))
    return Classes(found, True, how_found(look.period))


def refined(runs: Runs, look: Look, axis: Literal["kv", "q"]) -> Runs | None:
    """Full runs as they are, partial ones tile by tile as found; None if that takes more than the budget."""
    counts = np.where(runs.full, 0, runs.last - runs.first)
    if not look.affords(int(counts.sum())):
        return None
    found = [Runs(runs.at[runs.full], runs.first[runs.full], runs.last[runs.full], runs.full[runs.full], 0, 0)]
    for at, tile in chunks(runs, counts):
        kind = look.kinds(at, tile) if axis == "kv" else look.kinds(tile, at)
        if kind is None:
            return None
        keep = kind > 0
        found.append(Runs(*joined(at[keep], tile[keep], tile[keep] + 1, kind[keep] == 2), 0, 0))
    return together(found, runs)


def how_found(period: int | None) -> str:
    """In words."""
    if period is None:
        return "evaluated element by element"
    return "evaluated once a distance" if period == 1 else f"evaluated once, it repeats every {period} positions"


def chunks(runs: Runs, counts: Array) -> Iterator[tuple[Array, Array]]:
    """Single tiles of the runs, `counts` of each: (tile at hand, walked tile), some at a time, in order."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]) if len(ends) else 0, TILES_AT_A_TIME):
        place = np.arange(start, min(start + TILES_AT_A_TIME, int(ends[-1])))
        run = np.searchsorted(ends, place, side="right")
        yield runs.at[run], runs.first[run] + place - (ends - counts)[run]


def together(parts: list[Runs], like: Runs) -> Runs:
    """Runs of several parts in order, joined where they touch."""
    at, first, last, full = (np.concatenate([getattr(part, name) for part in parts]) for name in ("at", "first", "last", "full"))
    order = np.lexsort((first, at))
    return Runs(*joined(at[order], first[order], last[order], full[order]), like.tiles_at, like.tiles_walked)
