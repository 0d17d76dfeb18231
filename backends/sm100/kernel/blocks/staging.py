"""Values of keys and of distances in shared memory: brought once a tile, by all threads of a query tile, for all its elements.

A thread fetches one key's value, or two diagonals', before it waits for the scores, and puts them down after: by then every
warp has read what was there, since it gave its scores back only then; where it did before (`softmax_step.reads_late`), the warps
meet first. Keys' values are read four at a time, the same for all threads of a warp; distances' lie one word on from thread to
thread.
"""

from dataclasses import dataclass, field
from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Stage
from attnspec.backends.cute.kernel.plan import Widths
from cutlass import Float32, Int32

WORD_BYTES = 4
VECTOR = 4  # words of a 16-byte load
FIRST_BARRIER = 2  # named barriers of the query tiles; 0 is the whole block's, 1 that of the warps that work


def _words(plan: Widths, stage: Stage) -> int:
    return plan.tile_kv if stage.axis == "key" else plan.tile_q + plan.tile_kv


def fetch(plan: Widths, mods: Mods, element: Any, thread: Any, is_partial: bool) -> list[list[Any]]:
    """This thread's values of each stage, read from where the variant's tensors are; none of what only a mask would use."""
    found: list[list[Any]] = []
    least = element.at.q_first - element.first_key - (plan.tile_kv - 1)
    for stage in mods.stages:
        if not (is_partial or stage.in_score):
            found.append([])
        elif stage.axis == "key":
            found.append([stage.value(element.first_key + thread, element.at)])
        else:
            found.append([stage.value(least + thread + more, element.at) for more in (0, plan.tile_q)])
    return found


def put(
    plan: Widths, mods: Mods, fetched: list[list[Any]], address: Any, own: tuple[Any, Any], lane: Any, waits: bool
) -> "Staged":
    """Values to shared memory, complete for all threads of the query tile when this returns. own: a thread, and its row.

    waits: whether some warps may still read what is there.
    """
    thread, row = own
    own_word, offset = Int32(address + thread * WORD_BYTES), 0
    if waits and any(fetched):
        _meet(plan, lane)
    for stage, values in zip(mods.stages, fetched, strict=True):
        words = _words(plan, stage)
        for index, value in enumerate(values):
            first = index * plan.tile_q
            wanted = min(words - first, plan.tile_q)
            _store(own_word, offset + first * WORD_BYTES, _kind(stage)(value), thread, wanted, plan.tile_q)
        offset += words * WORD_BYTES
    if any(fetched):
        _meet(plan, lane)
    return Staged(plan, mods.stages, Int32(address), Int32(address + row * WORD_BYTES))


def _meet(plan: Widths, lane: Any) -> None:
    """All threads of the query tile."""
    ptx(f"bar.sync {{$r0}}, {plan.tile_q};", Int32(lane) + FIRST_BARRIER)


def _store(own_word: Any, offset: int, value: Any, thread: Any, wanted: int, threads: int) -> None:
    """A word of each of the first `wanted` threads: a tile may have fewer keys than rows."""
    store = f"st.shared.b32 [{{$r0}}+{offset}], {{$r1}};"
    if wanted == threads:
        ptx(store, own_word, value)
    else:
        ptx(f"{{.reg .pred p; setp.lt.u32 p, {{$r2}}, {wanted}; @p {store}}}", own_word, value, Int32(thread))


def _kind(stage: Stage) -> Any:
    return Float32 if stage.is_float else Int32


@dataclass(frozen=True)
class Staged:
    """What lies in shared memory for the elements of a row from some key on.

    keys: address of that key's values; distances: of what a distance of no keys, that of the row itself, would be.
    loaded: vectors of keys' values that have been read, by stage and place.
    """

    plan: Widths
    stages: tuple[Stage, ...]
    keys: Any
    distances: Any
    loaded: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)

    def moved(self, keys: Any) -> "Staged":
        """The same row, some keys on."""
        return Staged(self.plan, self.stages, self.keys + keys * WORD_BYTES, self.distances - keys * WORD_BYTES)

    def at(self, index: int) -> "StagedElement":
        """The values of one element."""
        return StagedElement(self, index)

    def of_key(self, number: int, index: int) -> Any:
        """A value of the key that is `index` on."""
        vector, place = divmod(index, VECTOR)
        if (number, vector) not in self.loaded:
            offset = self._offset(number) + vector * VECTOR * WORD_BYTES
            names = ", ".join(f"{{$w{at}}}" for at in range(VECTOR))
            text = f"ld.shared.v4.b32 {{{names}}}, [{{$r0}}+{offset}];"
            self.loaded[number, vector] = ptx(text, self.keys, returns=[_kind(self.stages[number])] * VECTOR)
        return self.loaded[number, vector][place]

    def of_distance(self, number: int, index: int) -> Any:
        """A value of the row's distance to the key that is `index` on; the tile's last key in its first row comes first."""
        offset = self._offset(number) + (self.plan.tile_kv - 1 - index) * WORD_BYTES
        return ptx(f"ld.shared.b32 {{$w0}}, [{{$r0}}+{offset}];", self.distances, returns=[_kind(self.stages[number])])

    def _offset(self, number: int) -> int:
        return sum(_words(self.plan, stage) for stage in self.stages[:number]) * WORD_BYTES


@dataclass(frozen=True)
class StagedElement:
    """The values of one element, `index` keys on."""

    staged: Staged
    index: int

    def value(self, number: int) -> Any:
        """The `number`-th staged value."""
        is_key = self.staged.stages[number].axis == "key"
        return (self.staged.of_key if is_key else self.staged.of_distance)(number, self.index)
