"""In which order CTAs take work tiles of unequal lengths: one of every round each, and every other round from its end.

Tiles of so many heads at a time, the longest first, are laid in rounds of as many as there are CTAs. Who has the longest of a
round has the shortest of the next: after two rounds all have had as much to do, and what the last round leaves over is short. No
counter is needed, and shares of causal tiles are mostly within 1 % of even ones. Where a group of heads begins CTAs do not turn
back: else the shortest tiles of every group, which under a window are short while all others are alike, would go to the same.

In a backward under a causal mask, whose tiles grow with their place, those in flight read whole heads (queries, gradients of the
output, the sum of dQ, to which they add), each round anew, and what L2 has no room for comes from memory. There rounds mix as few
heads as fit, or make four rounds: 0.3 % of unevenness for three quarters of the traffic (16 heads of
16,384, D 128: 4.2 GB a call, which costs power).

Where lengths hang on tensors they may come again and again, and always to the same CTAs (documents of one length: up to half more
than an even share). There CTAs scatter: after two rounds they move on by 5/8 of one, and have some of everything, within 15 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.plan import Widths
from cutlass import Int32, Uint32

# Heads whose tiles are mixed, at least: with fewer, rounds of a mask's first and last blocks differ too much. On an H200 1 to 32
# made no difference but for that, though L2 has no room for the keys of as many.
LEAST_HEADS = 16
LEAST_ROUNDS = 4  # that tiles which grow are mixed over, at least


class Order(Enum):
    """Work tiles alike, which CTAs take in turn; the longest first; those of a backward that grow with their place, likewise;
    lengths that only a call knows."""

    ALIKE = auto()
    FALLING = auto()
    GROWING = auto()
    SCATTERED = auto()


def order_of(plan: Widths) -> Order:
    """By what a plan says of its work tiles."""
    if not plan.longest_first:
        return Order.ALIKE
    if plan.scatters:
        return Order.SCATTERED
    return Order.GROWING if plan.grows else Order.FALLING


@dataclass(frozen=True)
class Rounds:
    """How places are numbered. heads: (or chunks of a group's heads) whose tiles are mixed; places: that these take, in whole
    rounds, of which the last may have empty ones at its end; count: of all places."""

    heads: Any
    places: Any
    count: Any


def deal(order: Order, heads: Any, blocks: Any, fit: Any, ctas: Any) -> Rounds:
    """The places of a call. heads: of all sequences together; blocks: work tiles of each; fit: heads that L2 has room for.

    Of tiles that are alike, or with a CTA for each tile, no place is empty: a head comes after the other, or as many as fit.
    """
    if order is Order.ALIKE:
        return Rounds(Int32(1), blocks, heads * blocks)
    fit, each = cutlass.max(cutlass.min(fit, heads), 1), cutlass.max(blocks, 1)
    least = Int32(LEAST_ROUNDS) if order is Order.GROWING else _up(LEAST_HEADS * each, ctas)
    rounds = cutlass.max(_up(fit * each, ctas), least)
    rounds += rounds & 1
    many = cutlass.max(cutlass.min(rounds * ctas // each, heads), 1)
    places = _up(many * blocks, ctas) * ctas
    whole = heads // many
    count = whole * places + _up((heads - whole * many) * blocks, ctas) * ctas
    at_once = heads * blocks <= ctas
    choices = ((fit, many), (fit * blocks, places), (heads * blocks, count))
    return Rounds(*(Int32(cutlass.select_(at_once, one, other)) for one, other in choices))


def following_place(order: Order, place: Any, ctas: Any, rounds: Rounds, is_empty: Callable[[Any], Any]) -> Any:
    """The place that a CTA takes after this one; the count of all or more where there is none.

    is_empty(place): whether no tile is there, as in the last round of a group of heads; from there a CTA goes on.
    """
    if order is Order.ALIKE:
        return place + ctas
    return _passed(order, _next(order, place, ctas, rounds.places), ctas, rounds.places, rounds.count, is_empty)


@cute.jit
def _passed(order: cutlass.Constexpr, place: Int32, ctas: Int32, places: Int32, count: Int32, is_empty: cutlass.Constexpr):
    while place < count and is_empty(place):
        place = _next(order, place, ctas, places)
    return place


def _next(order: Order, place: Any, ctas: Any, places: Any) -> Any:
    """As far from the beginning of the next round as this is from its round's end, or, where a group of heads begins, as far from
    the beginning as this; where CTAs scatter, after two rounds 5/8 further."""
    full = Int32(Uint32(place) // Uint32(ctas))
    begun = place - full * ctas
    left = ctas - 1 - begun
    if order is Order.SCATTERED:
        moved = left + ctas * 5 // 8
        moved = Int32(cutlass.select_(moved < ctas, moved, moved - ctas))
        at = cutlass.select_((full & 1) == 1, moved, left)
    else:
        group = Int32(Uint32(place) // Uint32(places))
        at = cutlass.select_(place + left + 1 - group * places == places, begun, left)
    return place + left + 1 + Int32(at)


def _up(value: Any, by: Any) -> Any:
    return (value + by - 1) // by
