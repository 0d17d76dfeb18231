"""A kernel in which every thread is a CTA that takes its places of a call, for tests."""

import tempfile
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import cutlass
import cutlass.cute as cute
import numpy as np
import torch
from attnspec.backends.cute.kernel.rounds import Order, Rounds, deal, following_place
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import quiet_settings
from cutlass import Int32
from cutlass.cute.runtime import make_fake_tensor

THREADS = 160  # and CTAs at most


def is_empty(asked: cute.Tensor, found: Rounds, place: Any) -> Any:
    """Whether a place lies behind the last tile of its group of heads."""
    group = place // found.places
    heads = cutlass.min(asked[0] - group * found.heads, found.heads)
    return place - group * found.places >= heads * asked[1]


@cute.kernel
def take_all(order: cutlass.Constexpr, asked: cute.Tensor, dealt: cute.Tensor, owner: cute.Tensor):
    """asked: heads, blocks, heads that fit, CTAs. dealt: what `deal` finds. owner: of each place, 1 + the CTA that took it."""
    cta, ctas = cute.arch.thread_idx()[0], asked[3]
    found = deal(order, asked[0], asked[1], asked[2], ctas)
    if cta == 0:
        dealt[0], dealt[1], dealt[2] = found.heads, found.places, found.count
    place = Int32(cta)
    if cta >= ctas:
        place = found.count
    while place < found.count:
        owner[place] += cta + 1
        place = following_place(order, place, ctas, found, partial(is_empty, asked, found))


@cute.jit
def launch_all(order: cutlass.Constexpr, asked: cute.Tensor, dealt: cute.Tensor, owner: cute.Tensor):
    """One block."""
    take_all(order, asked, dealt, owner).launch(grid=[1, 1, 1], block=[THREADS, 1, 1])


@cache
def _compiled(order: Order) -> Any:
    with tempfile.TemporaryDirectory() as folder, quiet_settings(folder):
        options = f"--gpu-arch sm_90a --keep-ptx --dump-dir {folder}"
        fake = [make_fake_tensor(Int32, (size,), (1,), assumed_align=4) for size in (4, 3, cute.sym_int())]
        return cute.compile(launch_all, order, *fake, options=options)


def taken(order: Order, heads: int, blocks: int, fit: int, ctas: int) -> tuple[Sequence[int], np.ndarray]:
    """What `deal` finds, and who takes each place: 1 + the CTA; a sum of such where several do."""
    asked = torch.tensor([heads, blocks, fit, ctas], dtype=torch.int32)
    room = 2 * heads * blocks + 4 * ctas * (heads + 1)
    dealt, owner = torch.zeros(3, dtype=torch.int32), torch.zeros(room, dtype=torch.int32)
    launch(_compiled(order), asked, dealt, owner, seed=None)
    return dealt.tolist(), owner.numpy()
