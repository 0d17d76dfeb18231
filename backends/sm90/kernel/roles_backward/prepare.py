"""The pass before the backward, with sum(out * dout) from the tensor core. A CTA of a warpgroup a query tile."""

import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods
from attnspec.backends.cute.kernel.query_walk import find_row
from attnspec.backends.cute.kernel.roles_backward.prepare import write_row
from attnspec.backends.cute.kernel.work import Sequences, Sizes
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks.row_products import RowTiles, row_products
from cutlass import Int32


@cute.jit
def prepare(
    plan: BackwardPlan,
    mods: BackwardMods,
    sizes: Sizes,
    sequences: Sequences,
    tiles: RowTiles,
    lse,
    dlse,
    rows,
    sum_dq,
    turns,
    tensors,
    sums,
):
    """What the pass of all targets does (`backends/cute`), a row a thread of the query tile."""
    thread = cute.arch.thread_idx()[0]
    sequence, h, first = find_row(plan, sizes, sequences, cute.arch.block_idx()[0], Int32(0))
    place = (first + sequence.row_shift, h, sequence.row_axis)
    product = row_products(plan, tiles, place, first < sequence.rows)
    if thread < plan.tile_q:
        write_row(plan, mods, sizes, (sequence, h, first + thread), product, lse, dlse, rows, sum_dq, turns, tensors, sums)
