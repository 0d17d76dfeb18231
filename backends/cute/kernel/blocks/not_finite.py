"""NaN and infinity in a value that some rows of a tile do not see: in the rows that see it, and in no others.

The tensor core multiplies what a row does not see by a probability of 0, and 0 * NaN is NaN. Looking for such values before the
product would cost every call; a row of O that is not finite although its sum is a number costs nothing to find. So a CTA notes
the first work tile with such a row, and when it has done all its tiles it does that one and those after it again, with care: what
is not finite becomes 0 in shared memory before the product, and is added to the rows that see it after. Rows that do not see it
get the bits that they would have had without it, since 0 times any number is 0.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
from attnspec.backends.cute.kernel.blocks.arithmetic import Bits, asking
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.plan import Widths
from attnspec.backends.cute.kernel.work import At
from cutlass import Boolean, Float32, Int64, Uint32

PIECE = 8  # columns of a value: 16 bytes
WORDS = PIECE // 2
WORD_BYTES = 4
NAN = 0x7FFFFFFF
INFINITY = 0x7F800000


def exponent_bits(plan: Widths) -> int:
    """Bits of a 16-bit number that are all set where it is NaN or infinite."""
    return 0x7F80 if plan.is_bf16 else 0x7C00


def infinite_halves(plan: Widths, word: Uint32) -> Uint32:
    """All bits of each half of a word that is not finite."""
    bits, found = exponent_bits(plan), Uint32(0)
    for half in (bits, bits << 16):
        found = found | Uint32(cutlass.select_((word & Uint32(half)) == Uint32(half), Uint32(half // bits * 0xFFFF), Uint32(0)))
    return found


@dataclass(frozen=True)
class _Unstaged:
    """Stands for values in shared memory: reads them where they come from, for the elements from `key` on."""

    mods: Mods
    place: At
    q: Any
    key: Any

    def at(self, index: int) -> "_Unstaged":
        """The values of one element."""
        return _Unstaged(self.mods, self.place, self.q, self.key + index)

    def value(self, number: int) -> Any:
        """The `number`-th of them."""
        stage = self.mods.stages[number]
        if stage.axis == "element":
            return stage.value(self.q, self.key, self.place)
        return stage.value(self.key if stage.axis == "key" else self.q - self.key, self.place)


def sees(mods: Mods, q: Any, key: Any, at: At, row: Any) -> Boolean:
    """Whether a row sees a key: the mask shows it, and its score, of a product q . k of 0, is more than -inf."""
    staged, seen = ((_Unstaged(mods, at, q, key),) if mods.stages else ()), Boolean(True)
    if mods.mask is not None:
        with asking(Bits(count=1)):
            seen = (mods.mask(q, key, at, row, *staged) & Uint32(1)) != Uint32(0)
    if mods.score is not None:
        seen = seen & (mods.score(Float32(0.0), q, key, at, row, *staged) != -Float32.inf)
    return seen


def first_value(tiles: Tiles, at: At) -> Int64:
    """Address of the first key's value, whatever it was made of forgotten."""
    value, sequence = tiles.value, at.sequence
    offset: Any = Int64(0)
    for index, axis in ((sequence.key_axis_given, 0), (sequence.key_given, 1), (at.hkv, 2)):
        offset = offset + Int64(index) * Int64(value.stride[axis])
    return ptx("mov.b64 {$w0}, {$r0};", (value.iterator + offset).toint(), returns=[Int64])


def poison(plan: Widths, word: Uint32, half: int) -> Float32:
    """A half of a word as f32 if it is NaN or infinite, else 0."""
    bits, number = exponent_bits(plan), word >> Uint32(16 * half) & Uint32(0xFFFF)
    is_finite = (number & Uint32(bits)) != Uint32(bits)
    is_nan = (number & Uint32(0x7FFF)) != Uint32(bits)
    signed = Uint32(INFINITY) | (number & Uint32(0x8000)) << Uint32(16)
    found = cutlass.select_(is_finite, Uint32(0), Uint32(cutlass.select_(is_nan, Uint32(NAN), signed)))
    return Uint32(found).bitcast(Float32)
