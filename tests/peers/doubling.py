"""A kernel of one line, for TVM-FFI."""

import cutlass
import cutlass.cute as cute


@cute.kernel
def kernel(source: cute.Tensor, target: cute.Tensor, count: cutlass.Int32):
    index, _, _ = cute.arch.thread_idx()
    if index < count:
        target[index] = source[index] + source[index]


@cute.jit
def host(source: cute.Tensor, target: cute.Tensor, count: cutlass.Int32, stream):
    kernel(source, target, count).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)
