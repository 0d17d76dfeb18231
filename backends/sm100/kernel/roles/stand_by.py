"""The role of warps of a pair of CTAs that have no work: those left over, and the tensor warp of the CTA that does not lead."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import pair
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Pipes
from attnspec.backends.cute.kernel.work import Work
from attnspec.backends.sm100.kernel.plan import Plan


@cute.jit
def stand_by(plan: Plan, tiles: Tiles, pipes: Pipes, work: Work, mods: Mods):
    """Comes to the one barrier of all warps that the others come to when their tiles are done (`following`)."""
    if cutlass.const_expr(mods.hides):
        pair.meet()
