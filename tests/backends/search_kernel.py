"""A kernel that searches a sorted row, warps together and lanes alone, for tests."""

import tempfile
from functools import cache
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
import torch
from attnspec.backends.cute.kernel.blocks.arithmetic import by_warp, search
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import quiet_settings
from cutlass.cute.runtime import make_fake_tensor

WARP, LANES = 0, 1  # what of `found` a value's search by a warp, and by a lane, is


@cute.kernel
def search_all(row: cute.Tensor, values: cute.Tensor, found: cute.Tensor):
    """A warp a value, then a lane a value. found: [how, side, value]."""
    lane, count = cute.arch.lane_idx(), values.shape[0]
    for at in range(count):
        with by_warp():
            places = [search(row, (), values[at], side) for side in ("left", "right")]
        for number, place in enumerate(places):
            if lane == 0:
                found[WARP, number, at] = place
    for first in range(0, count, 32):
        at = cutlass.min(first + lane, count - 1)
        places = [search(row, (), values[at], side) for side in ("left", "right")]
        for number, place in enumerate(places):
            found[LANES, number, at] = place


@cute.jit
def launch_all(row: cute.Tensor, values: cute.Tensor, found: cute.Tensor):
    """One warp."""
    search_all(row, values, found).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cache
def _compiled() -> Any:
    def fake(*axes: Any) -> Any:
        strides = tuple(int(np.prod([1, *axes[at + 1 :]])) if at + 1 < len(axes) else 1 for at in range(len(axes)))
        return make_fake_tensor(cutlass.Int32, axes, strides, assumed_align=4)

    with tempfile.TemporaryDirectory() as folder, quiet_settings(folder):
        options = f"--gpu-arch sm_90a --keep-ptx --dump-dir {folder}"
        return cute.compile(launch_all, fake(cute.sym_int()), fake(VALUES), fake(2, 2, VALUES), options=options)


VALUES = 40  # searched for at a time


def places_of(row: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[by a warp or by a lane][left or right][value]."""
    found = torch.full((2, 2, VALUES), -1, dtype=torch.int32)
    launch(_compiled(), torch.from_numpy(row), torch.from_numpy(values), found).check()
    return found.numpy()
