"""Whether a work tile is done by one CTA or by two that share what is streamed past it, by the cost model.

A pair of the forward loads half of the keys and values for each CTA, and reads half of each from shared memory. Its tensor core
is no faster, query tiles are as large, and what the CTAs tell each other takes longer: where L2 keeps up with one CTA, a pair
gains nothing (FA4's two forms differ by a fifth on a B200, in favour of one CTA).

In the backward a pair gains where shared memory and the way of dQ through registers bind one CTA: half of dQ finds columns beside
P, and so holds up no product (FA4's two forms differ by a tenth on a B200 at D 128, in favour of the pair).
"""

from dataclasses import dataclass
from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.choose_share import EQUAL, step_bound
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refuse_pair import backward_reason, can_pair

STREAM_BYTES = 32.0  # a clock that L2 gives a multiprocessor while all of them ask, half of what its port takes: assumed
Direction = Literal["forward", "backward"]


@dataclass(frozen=True)
class Estimate:
    """Cycles of a step by its hand-overs and units, and by the bytes that it loads."""

    ctas: Literal[1, 2]
    work: float
    bytes: int

    @property
    def loads(self) -> float:
        """Cycles in which L2 gives the keys and values of a step."""
        return self.bytes / STREAM_BYTES

    @property
    def cycles(self) -> float:
        """What a step takes."""
        return max(self.work, self.loads)


def estimate(analysed: Analysed, limits: Limits, ctas: Literal[1, 2], direction: Direction = "forward") -> Estimate:
    """What the model says of one form; no schedule is searched."""
    question = ask(draw(analysed, direction, ctas=ctas), analysed, limits)
    work = step_bound(question.dataflow, question.dims, limits, question.expected)
    return Estimate(ctas, work, question.dataflow.streamed_bytes)


def choose_ctas(analysed: Analysed, limits: Limits) -> Literal[1, 2]:
    """CTAs of a work tile of the forward: two where that makes a step shorter, which only fewer loads can."""
    if not can_pair(analysed, limits):
        return 1
    one = estimate(analysed, limits, 1)
    if one.loads <= one.work:
        return 1
    return 2 if estimate(analysed, limits, 2).cycles < one.cycles * (1 - EQUAL) else 1


def choose_backward_ctas(analysed: Analysed, limits: Limits, wanted: Literal[1, 2] | None = None) -> Literal[1, 2]:
    """CTAs of a work tile of the backward: as many as wanted, or as the model finds; one where two cannot share it."""
    if wanted == 1 or backward_reason(analysed, limits) is not None:
        return 1
    if wanted == 2:
        return 2
    one, two = (estimate(analysed, limits, ctas, "backward") for ctas in (1, 2))
    return 2 if two.cycles < one.cycles * (1 - EQUAL) else 1


def explain_ctas(analysed: Analysed, limits: Limits, chosen: int, direction: Direction = "forward") -> str:
    """Both forms in a line each, and which is taken."""
    reason = _reason(analysed, limits, direction)
    if reason:
        return f"CTAs a work tile: {chosen}; {reason}"
    found = [estimate(analysed, limits, ctas, direction) for ctas in (1, 2)]
    rows = [
        f"  {one.ctas}: a step takes {one.cycles:.0f} cycles or more, {one.work:.0f} by its hand-overs and units, "
        f"{one.loads:.0f} by the {one.bytes:,} bytes that it loads"
        for one in found
    ]
    best = choose_ctas(analysed, limits) if direction == "forward" else choose_backward_ctas(analysed, limits)
    why = "as the model would choose" if best == chosen else f"as asked; the model would choose {best}"
    if direction == "backward" and (chosen, best) == (1, 2):
        why = "until a pair has run on a GPU, unless asked for (ctas=2); the model would choose 2"
    return "\n".join([f"CTAs a work tile: {chosen}, {why}", *rows])


def _reason(analysed: Analysed, limits: Limits, direction: Direction) -> str:
    """Why two cannot share a work tile; nothing where they can."""
    if direction == "backward":
        found = backward_reason(analysed, limits)
        return f"{found[0]}: {found[1]}" if found else ""
    return "" if can_pair(analysed, limits) else "two cannot share the tiles of these head dimensions on this target"
