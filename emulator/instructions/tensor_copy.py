"""tcgen05.cp: rows of shared memory into tensor memory. PTX ISA 9.7.16.9; FACTS C5."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.instructions.rule import Act, Rule, only, unsupported
from attnspec.emulator.instructions.tensor_access import group_of
from attnspec.emulator.instructions.tensor_mma import queue, single
from attnspec.emulator.machine.matrix import decode_tile, tile_places
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.ptx.operands import Instruction

ALL = np.arange(128)
# Rows, bytes of a row, and which row each lane gets.
SHAPES = {
    ("128x256b", ""): (128, 32, ALL),
    ("128x128b", ""): (128, 16, ALL),
    ("64x128b", "warpx2::02_13"): (64, 16, ALL % 64),
    ("64x128b", "warpx2::01_23"): (64, 16, ALL % 32 + 32 * (ALL // 64)),
    ("32x128b", "warpx4"): (32, 16, ALL % 32),
}


def copy(instruction: Instruction) -> Rule:
    """tcgen05.cp.cta_group.SHAPE[.MULTICAST] [to], descriptor"""
    words = instruction.parts
    shape = next((word for word in words if word.endswith("b") and "x" in word and word[0].isdigit()), "")
    cast = next((word for word in words if word.startswith("warpx")), "")
    if (shape, cast) not in SHAPES:
        raise unsupported(instruction, "this shape")
    only(instruction, "cp", "cta_group::1", "cta_group::2", shape, cast)
    target, source = instruction.operands
    call = partial(issue, shape=SHAPES[shape, cast], group=group_of(instruction))
    return Act(call, ((target, "u32"), (source, "u64")), unit="tcgen05.cp")


def issue(warp: Any, mask: Any, target: Any, source: Any, shape: tuple[int, int, Any], group: int) -> None:
    """Queue the copy; with cta_group::2 each CTA of the pair copies from its own shared memory."""
    lane = single(warp, mask, "tcgen05.cp")
    column, word = int(target[lane]) & 0xFFFF, int(source[lane])
    rows, width, lanes = shape
    ctas = [warp.cta] if group == 1 else warp.cta.cluster.ctas[warp.cta.rank :][:2]

    def move(task: Task) -> None:
        places = tile_places(decode_tile(word), rows, width, 16, False)
        for cta in ctas:
            words = cta.shared.gather(task, places).reshape(rows, -1).view(np.uint32)
            cta.tensor.write(task, slice(column, column + width // 4), slice(0, 128), words[lanes].T)

    queue(warp, group, "tcgen05.cp", move)


TABLE = {"tcgen05.cp": copy}
