"""A kernel that searches two sorted rows, warps together and lanes alone, for tests."""

import tempfile
from functools import cache, partial
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
import torch
from attnspec.backends.cute.kernel.blocks.seeking import by_warp, search
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import quiet_settings
from cutlass.cute.runtime import make_fake_tensor

WARP, LANES = 0, 1  # what of `found` a value's search by a warp, and by a lane, is


def _places(row: cute.Tensor, other: cute.Tensor, value: Any) -> list[Any]:
    """Two searches of one row, one of another, and one there for what the first has found."""
    left, right = (search(row, (), value, side) for side in ("left", "right"))
    return [left, right, search(other, (), value, "left"), search(other, (), left, "right", waits=True)]


@cute.kernel
def search_all(row: cute.Tensor, other: cute.Tensor, values: cute.Tensor, found: cute.Tensor):
    """A warp a value, then a lane a value. found: [how, which, value]."""
    lane, count = cute.arch.lane_idx(), values.shape[0]
    for at in range(count):
        places = by_warp(partial(_places, row, other, values[at]))
        for number, place in enumerate(places):
            if lane == 0:
                found[WARP, number, at] = place
    for first in range(0, count, 32):
        at = cutlass.min(first + lane, count - 1)
        for number, place in enumerate(_places(row, other, values[at])):
            found[LANES, number, at] = place


@cute.jit
def launch_all(row: cute.Tensor, other: cute.Tensor, values: cute.Tensor, found: cute.Tensor):
    """One warp."""
    search_all(row, other, values, found).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cache
def _compiled() -> Any:
    def fake(*axes: Any) -> Any:
        strides = tuple(int(np.prod([1, *axes[at + 1 :]])) if at + 1 < len(axes) else 1 for at in range(len(axes)))
        return make_fake_tensor(cutlass.Int32, axes, strides, assumed_align=4)

    with tempfile.TemporaryDirectory() as folder, quiet_settings(folder):
        options = f"--gpu-arch sm_90a --keep-ptx --dump-dir {folder}"
        rows = fake(cute.sym_int()), fake(cute.sym_int())
        return cute.compile(launch_all, *rows, fake(VALUES), fake(2, PLACES, VALUES), options=options)


VALUES = 40  # searched for at a time
PLACES = 4


def places_of(row: np.ndarray, other: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[by a warp or by a lane][left in row, right in row, left in other, right in other of the first][value]."""
    found = torch.full((2, PLACES, VALUES), -1, dtype=torch.int32)
    launch(_compiled(), *(torch.from_numpy(array) for array in (row, other, values)), found).check()
    return found.numpy()
