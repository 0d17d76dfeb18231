"""Which key tiles a work tile visits: one answer for all lanes of a warp."""

from collections.abc import Callable
from typing import Any

from attnspec.backends.cute.kernel import work as shared
from attnspec.backends.cute.kernel.blocks.seeking import by_warp, seek, told
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.work import At, Steps
from attnspec.backends.sm90.kernel.blocks import board
from attnspec.backends.sm90.kernel.plan import Plan
from cutlass import Int32

Survey = tuple[Steps, Any, tuple[Any, ...]]


def survey(plan: Plan, tiles: Tiles, mods: Mods, at: At, q: tuple[Any, ...], visited: Int32) -> Survey:
    """Key tiles that a work tile visits, ranges of keys in which some are masked, and of rows at positions `q` what their
    elements share. visited: the tile's number among the CTA's."""
    make = _surveyed(plan, mods, at, q)
    return told(board.read(plan, tiles, visited, make), make) if plan.board_places else by_warp(make)


def visit_and_post(plan: Plan, tiles: Tiles, mods: Mods, at: At, visited: Int32) -> Steps:
    """The key tiles alone, for the warp that loads: it leaves what it had to find for those who attend."""
    if not plan.board_places:
        return visit(plan, mods, at)
    places = seek(_surveyed(plan, mods, at, (at.q_first,)))
    board.post(plan, tiles, visited, places)
    return told(places, lambda: shared.visit(plan, at, mods.keys(at)))


def visit(plan: Plan, mods: Mods, at: At) -> Steps:
    """The key tiles alone."""
    return by_warp(lambda: shared.visit(plan, at, mods.keys(at)))


def _surveyed(plan: Plan, mods: Mods, at: At, q: tuple[Any, ...]) -> Callable[[], Survey]:
    return lambda: (shared.visit(plan, at, mods.keys(at)), mods.hidden(at), tuple(mods.row(one, at) for one in q))
