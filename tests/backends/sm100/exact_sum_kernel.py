"""A kernel that adds numbers to exact sums, and one that rounds them, for tests."""

import tempfile
from functools import cache
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
import torch
from attnspec.backends.cute.kernel.backward_bundles import Exact
from attnspec.backends.cute.kernel.blocks import exact_sum
from attnspec.backends.cute.kernel.roles_backward.settle import settle
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import quiet_settings
from cutlass import Float32, Int32, Int64
from cutlass.cute.runtime import make_fake_tensor

THREADS = 128


@cute.kernel
def add_all(x: cute.Tensor, places: cute.Tensor, words: cute.Tensor):
    """A thread a number: x[i] to the sum places[i]."""
    at = Int32(cute.arch.block_idx()[0]) * THREADS + cute.arch.thread_idx()[0]
    if at < x.shape[0]:
        offset = Int64(places[at]) * (exact_sum.WORDS * exact_sum.WORD_BYTES)
        exact_sum.add(Int64(words.iterator.toint()) + offset, Float32(x[at]))


@cute.kernel
def round_all(sums: cute.Tensor, words: cute.Tensor):
    """A thread a sum."""
    settle(Exact(sums, words), THREADS)


@cute.jit
def launch_both(x: cute.Tensor, places: cute.Tensor, sums: cute.Tensor, words: cute.Tensor):
    """One after the other."""
    blocks = (x.shape[0] + (THREADS - 1)) // THREADS
    add_all(x, places, words).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])
    round_all(sums, words).launch(grid=[1, 1, 1], block=[THREADS, 1, 1])


@cache
def _compiled() -> Any:
    def fake(kind: Any) -> Any:
        return make_fake_tensor(kind, (cute.sym_int(),), (1,), assumed_align=8)

    with tempfile.TemporaryDirectory() as folder, quiet_settings(folder):
        options = f"--gpu-arch sm_100a --keep-ptx --dump-dir {folder}"
        tensors = map(fake, (cutlass.Float32, cutlass.Int32, cutlass.Float32, cutlass.Int64))
        return cute.compile(launch_both, *tensors, options=options)


def exact_sums(x: np.ndarray, places: np.ndarray, count: int, seed: int | None = None) -> np.ndarray:
    """The sums, f32; places: which one each number is added to."""
    words = torch.zeros(count * exact_sum.WORDS, dtype=torch.int64)
    sums = torch.full((count,), float("nan"))
    arguments = (torch.from_numpy(x.astype(np.float32)), torch.from_numpy(places.astype(np.int32)), sums, words)
    launch(_compiled(), *arguments, seed=seed).check()
    return sums.numpy()
