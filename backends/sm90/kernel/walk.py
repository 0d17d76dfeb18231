"""Which key tiles a work tile visits: found by the warp, one answer for all its lanes."""

from typing import Any

from attnspec.backends.cute.kernel import work as shared
from attnspec.backends.cute.kernel.blocks.arithmetic import by_warp
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.cute.kernel.work import At, Steps
from attnspec.backends.sm90.kernel.plan import Plan


def survey(plan: Plan, mods: Mods, at: At, q: tuple[Any, ...]) -> tuple[Steps, Any, tuple[Any, ...]]:
    """Key tiles that a work tile visits, ranges of keys in which some are masked, and of rows at positions `q` what their
    elements share."""
    return by_warp(lambda: (shared.visit(plan, at, mods.keys(at)), mods.hidden(at), tuple(mods.row(one, at) for one in q)))


def visit(plan: Plan, mods: Mods, at: At) -> Steps:
    """The key tiles alone."""
    return by_warp(lambda: shared.visit(plan, at, mods.keys(at)))
