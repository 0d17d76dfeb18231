"""Whether the backward's work tiles are done by one CTA each or by pairs: by the cost model, with a margin for what it assumes.

A pair gains where shared memory and the way of dQ through registers bind one CTA: half of dQ finds columns beside P, and so holds
up no product (FA4's two forms differ by a tenth on a B200 at D 128, in favour of the pair). It loses where twice as many keys
meet queries that only some of them want: at the edge of a mask, and where a sequence ends. So steps are counted too.
"""

from dataclasses import dataclass, replace
from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.visits import count_visits, unknown_of
from attnspec.lowering.dataflow.backward_shape import backward_shape
from attnspec.lowering.dataflow.forward import TILE_Q
from attnspec.lowering.schedule.choose_ctas import Estimate, estimate, tell
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refuse_pair import backward_reason
from attnspec.lowering.schedule.search import USUAL_STEPS

# A step's circle has up to four hand-overs to the other multiprocessor, at 100 cycles each, which nobody has measured. At D 128
# three quarters more of each are 8 % of a step: what is gained in the model is then no loss on a chip that is so much slower.
MARGIN = 0.08


@dataclass(frozen=True)
class Weighed:
    """Both forms of a backward that has both.

    unknown: what the queries of a key tile depend on that only a call knows; nothing where they can be counted.
    length: of queries and keys. steps: of a CTA with all key tiles of a head then, where one has a work tile, and where two
    share it; (0, 0) where they were not counted, since a pair's are no shorter or since that is unknown.
    """

    one: Estimate
    two: Estimate
    unknown: str
    length: int
    steps: tuple[int, int]

    @property
    def more(self) -> float:
        """Steps with pairs for one without."""
        return self.steps[1] / self.steps[0] if self.steps[0] else 1.0

    @property
    def gain(self) -> float:
        """The part of the cycles that pairs save; less than 0 where they take more."""
        return 1 - self.two.cycles / self.one.cycles * self.more

    @property
    def best(self) -> Literal[1, 2]:
        """CTAs of a work tile; one where nothing is seen, or nothing known of what is."""
        return 2 if self.steps[0] and self.gain >= MARGIN else 1


def choose_backward_ctas(analysed: Analysed, limits: Limits, wanted: Literal[1, 2] | None = None) -> Literal[1, 2]:
    """CTAs of a work tile of the backward: as many as wanted, or as the model finds; one where two cannot share it."""
    if wanted == 1 or backward_reason(analysed, limits) is not None:
        return 1
    return wanted or weigh(analysed, limits).best


def short_calls(analysed: Analysed, limits: Limits) -> int:
    """Keys, in whole tiles, of the longest calls for which the pairs that the model finds are no faster than one CTA; 0: none.

    Such a call is done by one: tiles of 256 keys waste the most where there are few of them.
    """
    if backward_reason(analysed, limits) is not None:
        return 0
    found = weigh(analysed, limits)
    if found.best == 1:
        return 0
    lengths = range(found.length, 0, -backward_shape(analysed.spec).tile_kv)
    return next((length for length in lengths if replace(found, steps=count_steps(analysed, length)).gain <= 0), 0)


def weigh(analysed: Analysed, limits: Limits) -> Weighed:
    """Both forms, of a variant that two CTAs can share; no schedule is searched."""
    one, two = (estimate(analysed, limits, ctas, "backward") for ctas in (1, 2))
    unknown, length = unknown_of(analysed), USUAL_STEPS * TILE_Q
    counts = not unknown and two.cycles < one.cycles
    return Weighed(one, two, unknown, length, count_steps(analysed, length) if counts else (0, 0))


def count_steps(analysed: Analysed, length: int) -> tuple[int, int]:
    """Steps of a CTA with all key tiles of a head, where one has a work tile, and where two share it."""
    shape = backward_shape(analysed.spec)
    one, two = (ctas * count_visits(analysed, shape.tile_q, ctas * shape.tile_kv, length) for ctas in (1, 2))
    return one, two


def explain_backward_ctas(analysed: Analysed, limits: Limits, chosen: int) -> str:
    """Both forms in a line each, which is taken, and for which calls another."""
    reason = backward_reason(analysed, limits)
    if reason is not None:
        return f"CTAs a work tile: {chosen}; {reason[0]}: {reason[1]}"
    found = weigh(analysed, limits)
    short = short_calls(analysed, limits) if chosen == 2 else 0
    why = "as the model finds" if found.best == chosen else f"as asked; the model finds {found.best}"
    why += f", but 1 for calls of at most {short:,} keys, where a pair is no faster" if short and found.best == chosen else ""
    return "\n".join([f"CTAs a work tile: {chosen}, {why}", tell(found.one), tell(found.two), f"  {_reason(found)}"])


def _reason(found: Weighed) -> str:
    """Why the model finds what it finds."""
    if found.unknown:
        return f"one: which queries a key tile meets hangs on {found.unknown}, and 256 keys may meet many more than 128 do"
    if not found.steps[0]:
        return "one: a pair takes no fewer cycles" if found.two.cycles >= found.one.cycles else "one: nothing is visible"
    return (
        f"at {found.length:,} queries and keys a pair takes {found.more:.3f} times the steps, and {_share(found.gain)} cycles; "
        f"it is taken where it saves {100 * MARGIN:.0f} %, since what the model assumes of it is not measured"
    )


def _share(gain: float) -> str:
    return f"saves {100 * gain:.1f} % of the" if gain >= 0 else f"takes {-100 * gain:.1f} % more"
