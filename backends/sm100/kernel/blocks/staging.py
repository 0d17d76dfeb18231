"""Values of keys and of distances in shared memory: brought once a tile, by all threads of a query tile, for all its elements.
Tiles of tensors that have an element for each query and key are there too, which TMA brings.

A thread fetches one key's value, or two diagonals', before it waits for the scores, and puts them down after: by then every
warp has read what was there, since it gave its scores back only then; where it did before (`softmax_step.reads_late`), the warps
meet first. Keys' values are read four at a time, the same for all threads of a warp; distances' lie one word on from thread to
thread; elements come 16 bytes at a time out of the thread's own row.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Stage
from attnspec.backends.cute.kernel.work import again
from attnspec.backends.sm100.kernel.blocks.softmax_place import Place
from attnspec.backends.sm100.kernel.plan import Plan
from cutlass import BFloat16, Float32, Int32, Uint32

WORD_BYTES = 4
VECTOR = 4  # words of a 16-byte load
FIRST_BARRIER = 2  # named barriers of the query tiles; 0 is the whole block's, 1 that of the warps that work
ROW_BYTES, CHUNK_BYTES = 128, 16  # of a box's row, and of what the swizzle moves: the chunk's number, exclusive or the row's


def _words(plan: Plan, stage: Stage) -> int:
    return {"key": plan.tile_kv, "distance": plan.tile_q + plan.tile_kv, "element": 0}[stage.axis]


def fetch(plan: Plan, mods: Mods, element: Any, thread: Any, is_partial: bool) -> list[list[Any]]:
    """This thread's values of each stage, read from where the variant's tensors are; none of what only a mask would use."""
    found: list[list[Any]] = []
    least = element.at.q_first - element.first_key - (plan.tile_kv - 1)
    for stage in mods.stages:
        if not (is_partial or stage.in_score) or stage.axis == "element":
            found.append([])
        elif stage.axis == "key":
            found.append([stage.value(element.first_key + thread, element.at)])
        else:
            found.append([stage.value(least + thread + more, element.at) for more in (0, plan.tile_q)])
    return found


def put(plan: Plan, mods: Mods, fetched: list[list[Any]], place: Place, row: Any, waits: bool) -> "Staged":
    """Values to shared memory, complete for all threads of the query tile when this returns. row: of the thread, in its tile.

    waits: whether some warps may still read what is there.
    """
    thread, lane, address = place.thread, place.lane, place.staged
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
    tiles = tuple(Int32(start + row * ROW_BYTES) for start in place.tensors)
    return Staged(plan, mods.stages, Int32(address), Int32(address + row * WORD_BYTES), tiles, Int32(row % 8 * CHUNK_BYTES))


def _meet(plan: Plan, lane: Any) -> None:
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
    tiles: of the row in each tensor's tile, and turn: by what its chunks are moved; first: keys of the step before that key.
    loaded: vectors of keys' values and of elements that have been read, by stage and place.
    """

    plan: Plan
    stages: tuple[Stage, ...]
    keys: Any
    distances: Any
    tiles: tuple[Any, ...] = ()
    turn: Any = None
    first: Any = 0
    loaded: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict)

    def moved(self, keys: Any) -> "Staged":
        """The same row, some keys on."""
        places = (self.keys + keys * WORD_BYTES, self.distances - keys * WORD_BYTES)
        return Staged(self.plan, self.stages, *places, self.tiles, self.turn, self.first + keys)

    def renewed(self) -> "Staged":
        """The same, whose rows of tiles are known only from here on."""
        if not self.tiles:
            return self
        return replace(self, tiles=tuple(again(start) for start in self.tiles), turn=again(self.turn), loaded={})

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

    def of_element(self, number: int, index: int) -> Any:
        """An element of the row and the key that is `index` on."""
        which = sum(stage.axis == "element" for stage in self.stages[:number])
        element = self.plan.tensor_tiles[which].element
        vector, place = divmod(index, 8 * CHUNK_BYTES // element.width)
        if (number, vector) not in self.loaded:
            chunk, chunks = self.first * element.width // (8 * CHUNK_BYTES) + vector, ROW_BYTES // CHUNK_BYTES
            box = chunk // chunks * (self.plan.tile_q * ROW_BYTES)
            address = self.tiles[which] + box + ((chunk % chunks * CHUNK_BYTES) ^ self.turn)
            self.loaded[number, vector] = load_chunk(element, address)
        return self.loaded[number, vector][place]

    def _offset(self, number: int) -> int:
        return sum(_words(self.plan, stage) for stage in self.stages[:number]) * WORD_BYTES


@dataclass(frozen=True)
class StagedElement:
    """The values of one element, `index` keys on."""

    staged: Staged
    index: int

    def value(self, number: int) -> Any:
        """The `number`-th staged value."""
        staged = self.staged
        find = {"key": staged.of_key, "distance": staged.of_distance, "element": staged.of_element}
        return find[staged.stages[number].axis](number, self.index)


def load_chunk(element: Any, address: Any) -> tuple[Any, ...]:
    """16 bytes of elements, as floats or ints."""
    kind = element if element.width == 32 else Uint32
    words = ptx("ld.shared.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];", Int32(address), returns=[kind] * VECTOR)
    if element.width == 32:
        return words
    if element.width == 8:
        return tuple(Int32(word >> Uint32(shift) & Uint32(0xFF)) for word in words for shift in (0, 8, 16, 24))
    if element is BFloat16:
        return tuple(Uint32(part).bitcast(Float32) for word in words for part in (word << Uint32(16), word & Uint32(0xFFFF0000)))
    return tuple(value for word in words for value in _halves(word))


def _halves(word: Uint32) -> tuple[Float32, ...]:
    """Two fp16 numbers of a word."""
    text = "{.reg .b16 l, h; mov.b32 {l, h}, {$r0}; cvt.f32.f16 {$w0}, l; cvt.f32.f16 {$w1}, h;}"
    return ptx(text, word, returns=[Float32, Float32])
