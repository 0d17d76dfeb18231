"""Which key tiles a work tile visits: found by the warp, one answer for all its lanes."""

from typing import Any

from attnspec.backends.cute.kernel import work as shared
from attnspec.backends.cute.kernel.blocks.arithmetic import by_warp
from attnspec.backends.cute.kernel.bundles import Mods
from attnspec.backends.cute.kernel.work import At, Steps
from attnspec.backends.sm90.kernel.plan import Plan


def survey(plan: Plan, mods: Mods, at: At) -> tuple[Steps, Any]:
    """Key tiles that a work tile visits, and ranges of keys in which some are masked."""
    return by_warp(lambda: (shared.visit(plan, at, mods.keys(at)), mods.hidden(at)))


def visit(plan: Plan, mods: Mods, at: At) -> Steps:
    """The key tiles alone."""
    return by_warp(lambda: shared.visit(plan, at, mods.keys(at)))
