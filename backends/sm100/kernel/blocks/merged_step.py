"""One step of the backward where the score is needed again with dP: a loop over columns of S and dP, nothing kept between them.

P waits for dP here, which costs a step the time of a product; in return no score is computed twice, and none is held.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.sm100.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm100.kernel.blocks import gradient_step, learned_gradient, tensor_memory
from cutlass import Int32

CHUNK = gradient_step.LOOP_CHUNK


@cute.jit
def loop(
    plan: BackwardPlan,
    tiles: BackwardTiles,
    mods: BackwardMods,
    sums: Any,
    columns: tuple,
    rows: Int32,
    shared: Int32,
    row: Int32,
    piece: Int32,
    element: gradient_step.Element,
):
    """S to P, dP to dS, in tensor memory and in shared memory. columns: this thread's of S, P, dP, dS. piece: the one of
    its row of shared memory that it begins with.

    P and dS take half the columns of S and dP, so that they only overwrite what has been read.
    """
    s, p, dp, ds = columns
    for first in cutlass.range(0, plan.half, CHUNK, unroll=1):
        place = plan.query(first)
        own = gradient_step.moved(element, place)
        words = gradient_step.visible_words(plan, mods, own, CHUNK)
        raw, dp_part = tensor_memory.load(s + place, CHUNK), tensor_memory.load(dp + place, CHUNK)
        tensor_memory.wait_loads()
        scores, slopes = gradient_step.scored(mods, raw, own)
        minus_lse, minus_delta = (gradient_step.load_rows(rows + (plan.tile_q * plane + place) * 4, CHUNK) for plane in (0, 1))
        weights = gradient_step.masked(gradient_step.probabilities(mods, scores, minus_lse), words, 0, 0.0)
        tensor_memory.store(p + first // 2, f32.narrow(weights, plan.element))
        found = gradient_step.score_gradients(weights, list(dp_part), minus_delta, True)
        learned_gradient.gather(tiles, mods, sums, found, gradient_step.scaled(mods, raw, own), own)
        narrow = f32.narrow(gradient_step.weighted(found, slopes), plan.element)
        tensor_memory.store(ds + first // 2, narrow)
        gradient_step.share(plan, shared, row, narrow, piece, first)
