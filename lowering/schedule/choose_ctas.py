"""Whether a work tile is done by one CTA or by two that share what is streamed past it, by the cost model.

A pair of the forward loads half of the keys and values for each CTA, and reads half of each from shared memory. Its tensor core
is no faster, query tiles are as large, and what the CTAs tell each other takes longer: where L2 keeps up with one CTA, a pair
gains nothing (FA4's two forms differ by a fifth on a B200, in favour of one CTA).
The backward's is `choose_backward_ctas`.
"""

from dataclasses import dataclass
from typing import Literal

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.choose_share import EQUAL, step_bound
from attnspec.lowering.schedule.choose_tiles import choose_tiles
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refuse_pair import can_pair

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
    """CTAs of a work tile of the forward: two where that makes a step shorter, which only fewer loads can; one where TMA brings
    tiles of tensors, which it does for one alone."""
    if not can_pair(analysed, limits) or choose_tiles(analysed, limits).count:
        return 1
    one = estimate(analysed, limits, 1)
    if one.loads <= one.work:
        return 1
    return 2 if estimate(analysed, limits, 2).cycles < one.cycles * (1 - EQUAL) else 1


def explain_ctas(analysed: Analysed, limits: Limits, chosen: int) -> str:
    """Both forms of a forward in a line each, and which is taken."""
    if not can_pair(analysed, limits):
        return f"CTAs a work tile: {chosen}; two cannot share the tiles of these head dimensions on this target"
    if choose_tiles(analysed, limits).count:
        return f"CTAs a work tile: {chosen}; tiles of tensors come through TMA for one CTA, element by element for two"
    best = choose_ctas(analysed, limits)
    why = "as the model would choose" if best == chosen else f"as asked; the model would choose {best}"
    rows = (tell(estimate(analysed, limits, ctas)) for ctas in (1, 2))
    return "\n".join([f"CTAs a work tile: {chosen}, {why}", *rows])


def tell(found: Estimate) -> str:
    """One form in a line."""
    return (
        f"  {found.ctas}: a step takes {found.cycles:.0f} cycles or more, {found.work:.0f} by its hand-overs and units, "
        f"{found.loads:.0f} by the {found.bytes:,} bytes that it loads"
    )
