"""Shares of a tensor read by distance: each warp sums its own along diagonals and stages the sums, one warp adds up those of all.

A strip has the sums of a warp's 16 keys and so many queries: number n is of distance query - key = n - 16, both counted from
the strip's first. Strips lie [read][warp][part of the queries][n]. Key tiles meet one query tile after the other, and most
distances of a step are some of the next one's too: what is no more wanted goes to global memory, the rest is carried on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles, LearnedRead
from attnspec.backends.cute.kernel.blocks.gradient_sums import add_all
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.blocks.seeking import unsought
from attnspec.backends.cute.kernel.pipes import Now, Pipes, find, slot
from attnspec.backends.cute.kernel.query_walk import KeyAt
from cutlass import Float32, Int32

WARP, KEYS, WORD_BYTES = 32, 16, 4


@dataclass(frozen=True)
class Strips:
    """Where the strips of a step are. queries: of a strip; tile_q, tile_kv: of the step."""

    queries: int
    tile_q: int
    tile_kv: int

    @property
    def words(self) -> int:
        """Numbers of a strip."""
        return self.queries + KEYS

    @property
    def parts(self) -> int:
        """Strips of a warp."""
        return self.tile_q // self.queries

    @property
    def read_bytes(self) -> int:
        """Of one read, all warps' strips."""
        return self.tile_kv // KEYS * self.parts * self.words * WORD_BYTES

    @property
    def carried(self) -> int:
        """Numbers a lane carries on: distances from the key tile's last key to its first, of the next step's first query."""
        return self.tile_kv // WARP

    @property
    def ended(self) -> int:
        """Numbers a lane is through with in each step."""
        return self.tile_q // WARP

    def offset(self, read: int, warp: Any, part: int) -> Any:
        """Bytes from the step's first strip to a warp's."""
        return read * self.read_bytes + (warp * self.parts + part) * (self.words * WORD_BYTES)

    def numbers(self, at: int) -> Iterator[tuple[int, int]]:
        """Of number `at` of a lane: the strips that have some of it, by their offsets, and which number of each is lane 0's."""
        for warp in range(self.tile_kv // KEYS):
            for part in range(self.parts):
                first = at * WARP - self.tile_kv + KEYS + warp * KEYS - part * self.queries
                if -WARP < first < self.words:
                    yield self.offset(0, warp, part), first


def strips_of(plan: Any) -> Strips:
    """Those of a plan."""
    return Strips(plan.strips_queries, plan.tile_q, plan.tile_kv)


def reads_of(mods: BackwardMods) -> list[LearnedRead]:
    """The reads that have strips, in order."""
    return [read for read in mods.learned if read.address == "distance"]


def start(plan: Any, tiles: BackwardTiles, pipes: Pipes, now: Now) -> Any:
    """Where the strips of a step are."""
    return tiles.shared + plan.strips_offset + slot(find(pipes, "strips"), now) * plan.strips_stride


def nothing_carried(plan: Any, mods: BackwardMods) -> Any:
    """Registers for what is carried on, at 0."""
    count = strips_of(plan).carried * len(reads_of(mods))
    carried = cute.make_rmem_tensor(count, Float32)
    for at in range(count):
        carried[at] = Float32(0.0)
    return carried


def add_step(plan: Any, tiles: BackwardTiles, mods: BackwardMods, carried: Any, shared: Any, at: KeyAt, first: Any) -> None:
    """Take in a step, by a warp. shared: `start` of it; first: the position of its first query."""
    strips, lane = strips_of(plan), cute.arch.lane_idx()
    for number, read in enumerate(reads_of(mods)):
        begin = number * strips.carried
        total = [carried[begin + one] for one in range(strips.carried)] + [Float32(0.0)] * strips.ended
        address = Int32(shared + number * strips.read_bytes + lane * WORD_BYTES)
        for one in range(len(total)):
            for offset, low in strips.numbers(one):
                total[one] = total[one] + _load(address, offset + low * WORD_BYTES, lane, low, strips.words)
        _add(tiles, mods, read, at, first, total[: strips.ended], strips.tile_kv)
        for one in range(strips.carried):
            carried[begin + one] = total[strips.ended + one]


def end(plan: Any, tiles: BackwardTiles, mods: BackwardMods, carried: Any, at: KeyAt, first: Any) -> None:
    """Add what is carried on, where the next step has other queries. first: where they would have begun."""
    strips = strips_of(plan)
    for number, read in enumerate(reads_of(mods)):
        begin = number * strips.carried
        _add(tiles, mods, read, at, first, [carried[begin + one] for one in range(strips.carried)], strips.tile_kv)
        for one in range(strips.carried):
            carried[begin + one] = Float32(0.0)


def _load(address: Int32, offset: int, lane: Any, low: int, words: int) -> Float32:
    """A lane's number of a strip, 0 beyond its ends."""
    if low >= 0 and low + WARP <= words:
        return ptx(f"ld.shared.f32 {{$w0}}, [{{$r0}}+{offset}];", address, returns=[Float32])
    load = f"@p ld.shared.f32 {{$w0}}, [{{$r0}}+{offset}];"
    text = f"{{.reg .pred p; setp.lt.u32 p, {{$r1}}, {words}; mov.f32 {{$w0}}, 0f00000000; {load}}}"
    return ptx(text, address, Int32(lane + low), returns=[Float32])


def _add(
    tiles: BackwardTiles, mods: BackwardMods, read: LearnedRead, at: KeyAt, first: Any, values: list[Float32], tile_kv: int
) -> None:
    """A lane's numbers, 32 distances after the other, to their places. Their distance is all that an address knows of them."""
    kv = Int32(at.sequence.kv_first + at.key)
    key = unsought(lambda: mods.key(cutlass.min(kv, at.kv_last), at))  # places are the mask's
    query = first - tile_kv + cute.arch.lane_idx()
    places = [read.indices(query + one * WARP, kv, at, key) for one in range(len(values))]
    add_all(getattr(tiles.sums, read.name), tuple(places), tuple(values))
