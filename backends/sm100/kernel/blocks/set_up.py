"""What a CTA does before its roles start and after they end."""

from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import pair
from attnspec.backends.cute.kernel.pipes import Pipes, init
from attnspec.backends.cute.kernel.work import NUMBER
from attnspec.backends.sm100.kernel.blocks import tensor_core, tensor_memory
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import Int32


@cute.jit
def set_up(plan: Plan, pipes: Pipes, shared: Any, starts: Any, warp: Int32, allocator: cutlass.Constexpr[int]):
    """Barriers initialised, tensor memory taken by warp `allocator` (its address in the first word of `starts`), all told."""
    if warp == 0:
        with cute.arch.elect_one():
            init(pipes, plan.lanes)
        cute.arch.mbarrier_init_fence()
    await_peer(plan)
    if warp == allocator:
        (starts + 1).store(tensor_core.descriptor_start(shared.toint()))
        (starts + 2).store(Int32(NUMBER))
        tensor_memory.allocate(starts, plan.tensor_columns, plan.ctas)
    cute.arch.sync_threads()


def await_peer(plan: Plan) -> None:
    """A pair takes tensor memory together, and signals to each other's barriers: both must be there."""
    if plan.ctas > 1:
        pair.meet()


@cute.jit
def tear_down(plan: Plan, starts: Any, warp: Int32, allocator: cutlass.Constexpr[int]):
    """Tensor memory given back, once no role uses it; of a pair, once neither signals to the other any more."""
    if cutlass.const_expr(plan.ctas > 1):
        pair.meet()
    else:
        cute.arch.sync_threads()
    if warp == allocator:
        tensor_memory.release(starts.load(), plan.tensor_columns, plan.ctas)
