"""Values of keys and of distances in shared memory: brought once a tile, by each warpgroup for its own 64 rows.

A thread fetches one key's value, or two diagonals', before it waits for the scores, and puts them down after: by then every
warp of the group has read what was there, since the product it waited for was begun by all of them after that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Stage
from attnspec.backends.sm90.kernel.blocks.held import GROUP_ROWS
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS, Plan
from cutlass import Float32, Int32

WORD_BYTES = 4
PAIR = 2  # keys in a row that a thread has of every eight
FIRST_BARRIER = 5  # named barriers of the warpgroups; those before are for their turns


def rounds(plan: Plan, stage: Stage) -> int:
    """How many values a thread brings: all threads together those of all keys, or of as many distances as rows and keys."""
    return -(-(plan.tile_kv + (GROUP_ROWS if stage.axis == "distance" else 0)) // GROUP_THREADS)


def words(plan: Plan, stage: Stage) -> int:
    """Words of a value's place: as many as threads bring."""
    return GROUP_THREADS * rounds(plan, stage)


def fetch(plan: Plan, mods: Mods, at: Any, first_key: Any, first_q: Any, thread: Any, is_partial: bool) -> list[list[Any]]:
    """This thread's values of each stage, read from where the variant's tensors are; none of what only a mask would use.

    first_key: of the tile; first_q: of the warpgroup.
    """
    found: list[list[Any]] = []
    least = first_q - first_key - (plan.tile_kv - 1)
    for stage in mods.stages:
        if not (is_partial or stage.in_score):
            found.append([])
        else:
            first = first_key if stage.axis == "key" else least
            found.append([stage.value(first + thread + turn * GROUP_THREADS, at) for turn in range(rounds(plan, stage))])
    return found


def put(
    plan: Plan, mods: Mods, fetched: list[list[Any]], address: Any, thread: Any, group: Any, places: Sequence[Any]
) -> "tuple[Staged, Staged]":
    """Values to shared memory, complete for all threads of the warpgroup when this returns; what reads them, by row.

    places: of the thread's two rows in the warpgroup.
    """
    own, offset = Int32(address + thread * WORD_BYTES), 0
    for stage, values in zip(mods.stages, fetched, strict=True):
        for index, value in enumerate(values):
            ptx(f"st.shared.b32 [{{$r0}}+{offset + index * GROUP_THREADS * WORD_BYTES}], {{$r1}};", own, _kind(stage)(value))
        offset += words(plan, stage) * WORD_BYTES
    if any(fetched):
        ptx(f"bar.sync {{$r0}}, {GROUP_THREADS};", Int32(group) + FIRST_BARRIER)
    first = thread % 4 * PAIR
    keys = Int32(address + first * WORD_BYTES)
    loaded: dict[tuple[int, int], tuple[Any, ...]] = {}
    one, other = (Staged(plan, mods.stages, keys, Int32(address + (place - first) * WORD_BYTES), loaded) for place in places)
    return one, other


def _kind(stage: Stage) -> Any:
    return Float32 if stage.is_float else Int32


@dataclass(frozen=True)
class Staged:
    """What lies in shared memory for the elements of a row from some key on.

    keys: address of that key's values; distances: of what a distance of no keys, that of the row itself, would be.
    loaded: pairs of keys' values that have been read, by stage and place.
    """

    plan: Plan
    stages: tuple[Stage, ...]
    keys: Any
    distances: Any
    loaded: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)
    first: int = 0

    def moved(self, keys: int) -> "Staged":
        """The same row, some keys on."""
        return Staged(self.plan, self.stages, self.keys, self.distances, self.loaded, self.first + keys)

    def at(self, index: int) -> "StagedElement":
        """The values of one element."""
        return StagedElement(self, self.first + index)

    def of_key(self, number: int, index: int) -> Any:
        """A value of the key that is `index` on."""
        pair, place = divmod(index, PAIR)
        if (number, pair) not in self.loaded:
            offset = self._offset(number) + pair * PAIR * WORD_BYTES
            text = f"ld.shared.v2.b32 {{{{$w0}}, {{$w1}}}}, [{{$r0}}+{offset}];"
            self.loaded[number, pair] = ptx(text, self.keys, returns=[_kind(self.stages[number])] * PAIR)
        return self.loaded[number, pair][place]

    def of_distance(self, number: int, index: int) -> Any:
        """A value of the row's distance to the key that is `index` on; the tile's last key in its first row comes first."""
        offset = self._offset(number) + (self.plan.tile_kv - 1 - index) * WORD_BYTES
        return ptx(f"ld.shared.b32 {{$w0}}, [{{$r0}}+{offset}];", self.distances, returns=[_kind(self.stages[number])])

    def _offset(self, number: int) -> int:
        return sum(words(self.plan, stage) for stage in self.stages[:number]) * WORD_BYTES


@dataclass(frozen=True)
class StagedElement:
    """The values of one element, `index` keys on."""

    staged: Staged
    index: int

    def value(self, number: int) -> Any:
        """The `number`-th staged value."""
        is_key = self.staged.stages[number].axis == "key"
        return (self.staged.of_key if is_key else self.staged.of_distance)(number, self.index)
