"""What a CTA does before its roles start."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.pipes import Pipes, init
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.work import NUMBER
from attnspec.backends.sm90.kernel.blocks import board
from attnspec.backends.sm90.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def set_up(plan: Widths, pipes: Pipes, starts: Any, warp: Int32):
    """Barriers initialised, no work tile doubtful, all told."""
    if warp == 0:
        with cute.arch.elect_one():
            init(pipes, plan.query_tiles)
            if cutlass.const_expr(isinstance(plan, Plan) and plan.board_places > 0):
                board.init(plan, starts)
            (starts + 2).store(Int32(NUMBER))
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
