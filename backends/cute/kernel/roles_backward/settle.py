"""The last pass of a deterministic backward with learned tensors: exact sums rounded to f32. A thread an element."""

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import Exact
from attnspec.backends.cute.kernel.blocks import exact_sum
from cutlass import Int64


@cute.jit
def settle(exact: Exact, threads: cutlass.Constexpr):
    """Every element of the tensor, which has no gaps, by any number of CTAs."""
    count = cute.size(exact.tensor)
    first = cute.arch.block_idx()[0] * threads + cute.arch.thread_idx()[0]
    for element in cutlass.range(first, count, cute.arch.grid_dim()[0] * threads, unroll=1):
        words = Int64(exact.words.iterator.toint()) + Int64(element) * (exact_sum.WORDS * exact_sum.WORD_BYTES)
        (exact.tensor.iterator + element).store(exact_sum.total(words))
