"""A kernel that takes 2^x of pairs as the softmax role does, for tests."""

import tempfile
from functools import cache
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
import torch
from attnspec.backends.cute.kernel.blocks import f32
from attnspec.backends.cute.kernel.blocks.exponential import Emulation, exponential
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import quiet_settings
from cutlass import Float32, Int32
from cutlass.cute.runtime import make_fake_tensor

THREADS = 128


def of_pair(x: Any, degree: int, keeps_nan: bool) -> tuple[Float32, Float32]:
    """2^x of a pair."""
    return Emulation(degree, keeps_nan)(x) if degree else exponential(x)


@cute.kernel
def each_pair(x: cute.Tensor, y: cute.Tensor, degree: cutlass.Constexpr, keeps_nan: cutlass.Constexpr):
    """y = 2^x, two elements a thread."""
    at = (Int32(cute.arch.block_idx()[0]) * THREADS + cute.arch.thread_idx()[0]) * 2
    if at + 1 < x.shape[0]:
        y[at], y[at + 1] = of_pair(f32.pair(Float32(x[at]), Float32(x[at + 1])), degree, keeps_nan)


@cute.jit
def launch_pairs(x: cute.Tensor, y: cute.Tensor, degree: cutlass.Constexpr, keeps_nan: cutlass.Constexpr):
    """A thread for each pair."""
    blocks = (x.shape[0] + (2 * THREADS - 1)) // (2 * THREADS)
    each_pair(x, y, degree, keeps_nan).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])


@cache
def _compiled(degree: int, keeps_nan: bool) -> Any:
    fake = make_fake_tensor(cutlass.Float32, (cute.sym_int(),), (1,), assumed_align=4)
    with tempfile.TemporaryDirectory() as folder, quiet_settings(folder):
        options = f"--gpu-arch sm_100a --keep-ptx --dump-dir {folder}"
        return cute.compile(launch_pairs, fake, fake, degree, keeps_nan, options=options)


def exponentials(x: np.ndarray, degree: int, keeps_nan: bool = False) -> np.ndarray:
    """2^x of an even number of f32 values by the compiled code; degree 0: by the special function unit."""
    values = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    result = torch.zeros_like(values)
    launch(_compiled(degree, keeps_nan), values, result, seed=None, checks="all").check()
    return result.numpy()
