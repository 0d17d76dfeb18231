"""Calls of attention that peers have to get right, and the names by which the tables call them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A call. lengths: (queries, keys) of each sequence; several mean varlen, packed. heads: of queries, of keys. dims: of Q and
    K, of V. window: keys to the left and to the right of the diagonal, which is that of the last query and the last key.
    splits: of the keys. processors: of the device, fewer than tiles for CTAs with several. pairs: two CTAs may work on one
    product. spread: of scores; row maxima grow with much, and accumulators are rescaled."""

    name: str
    lengths: tuple[tuple[int, int], ...]
    dims: tuple[int, int] = (128, 128)
    heads: tuple[int, int] = (1, 1)
    batch: int = 1
    causal: bool = False
    window: tuple[int | None, int | None] = (None, None)
    softcap: float = 0.0
    sink: bool = False
    splits: int = 1
    deterministic: bool = False
    backward: bool = False
    page: int = 0
    processors: int = 148
    pairs: bool = True
    spread: int = 1

    def __str__(self) -> str:
        return self.name


def square(length: int) -> tuple[tuple[int, int], ...]:
    """One sequence."""
    return ((length, length),)


RAGGED = ((300, 417),)
PACKED = ((200, 300), (129, 64), (77, 77))

FORWARD = (
    Case("D 128, 1-CTA", square(256)),
    Case("D 128, 2-CTA", square(512)),
    Case("D 128, 2-CTA, several tiles a cluster", square(512), heads=(2, 1), batch=2, processors=2),
    Case("D 128, causal", square(384), causal=True, spread=4),
    Case("D 128, causal, GQA, several tiles a CTA", square(300), heads=(4, 2), causal=True, processors=2),
    Case("D 128, ragged", RAGGED),
    Case("D 128, ragged, causal", RAGGED, causal=True),
    Case("D 128, varlen, GQA", PACKED, heads=(2, 1)),
    Case("D 128, varlen, causal", PACKED, causal=True),
    Case("D 128, window (100, 20)", square(512), window=(100, 20)),
    Case("D 128, window (64, 0)", square(512), heads=(2, 1), window=(64, 0)),
    Case("D 128, softcap 15", square(512), softcap=15.0),
    Case("D 128, softcap 15, ragged, causal", RAGGED, softcap=15.0, causal=True),
    Case("D 128, sink", square(512), heads=(2, 2), sink=True),
    Case("D 128, sink, causal", square(256), heads=(2, 1), sink=True, causal=True),
    Case("D 128, 4 splits and combine", ((128, 1024),), heads=(2, 1), splits=4),
    Case("D 128, one query, GQA 8:1", ((1, 512),), heads=(8, 1), batch=2),
    Case("D 64", square(256), dims=(64, 64)),
    Case("D 64, causal, GQA", square(384), dims=(64, 64), heads=(2, 1), causal=True),
    Case("D 64, ragged", RAGGED, dims=(64, 64)),
    Case("D 64, varlen, causal", PACKED, dims=(64, 64), causal=True),
    Case("D 64, 4 splits and combine", ((128, 1024),), dims=(64, 64), splits=4),
    Case("D 96, ragged, causal", RAGGED, dims=(96, 96), causal=True),
    Case("(192, 128)", square(512), dims=(192, 128)),
    Case("(192, 128), causal", square(300), dims=(192, 128), causal=True),
    Case("D 256", square(512), dims=(256, 256)),
    Case("D 256, ragged, causal", RAGGED, dims=(256, 256), causal=True, spread=4),
)
BACKWARD = (
    Case("D 128, 1-CTA", square(256), pairs=False),
    Case("D 128, 2-CTA", square(512)),
    Case("D 128, causal, 2-CTA, GQA", square(384), heads=(2, 1), causal=True),
    Case("D 128, ragged, causal", RAGGED, causal=True),
    Case("D 128, varlen, GQA", PACKED, heads=(2, 1)),
    Case("D 128, window (64, 0)", square(512), window=(64, 0)),
    Case("D 128, softcap 15", square(256), softcap=15.0),
    Case("D 128, sink, causal", square(256), heads=(2, 2), sink=True, causal=True),
    Case("D 128, deterministic, GQA", square(512), heads=(2, 1), deterministic=True),
    Case("D 128, deterministic, causal", square(384), deterministic=True, causal=True),
    Case("D 64", square(256), dims=(64, 64)),
    Case("D 64, causal, GQA", square(384), dims=(64, 64), heads=(2, 1), causal=True),
    Case("D 64, varlen, deterministic", PACKED, dims=(64, 64), deterministic=True),
    Case("D 96, ragged", RAGGED, dims=(96, 96)),
    Case("(192, 128)", square(512), dims=(192, 128)),
    Case("D 256", square(512), dims=(256, 256)),
    Case("D 256, causal", square(300), dims=(256, 256), causal=True),
)
HOPPER_FORWARD = (
    Case("D 128, causal, GQA", square(300), heads=(2, 1), causal=True),
    Case("D 128, varlen", PACKED),
    Case("D 128, softcap 15", square(256), softcap=15.0),
    Case("D 64, ragged, causal", RAGGED, dims=(64, 64), causal=True),
    Case("D 96, window (64, 0)", square(384), dims=(96, 96), window=(64, 0)),
    Case("(192, 128)", square(256), dims=(192, 128)),
    Case("D 256, causal", square(256), dims=(256, 256), causal=True),
    Case("D 128, sink", square(256), heads=(2, 2), sink=True),
)
HOPPER_BACKWARD = (
    Case("D 64, causal", square(384), dims=(64, 64), causal=True),
    Case("D 128, ragged, GQA", RAGGED, heads=(2, 1)),
    Case("D 128, varlen, causal", PACKED, causal=True),
    Case("D 128, deterministic", square(256), deterministic=True),
    Case("D 96", square(256), dims=(96, 96)),
    Case("D 256", square(256), dims=(256, 256)),
)
PAGED = (Case("D 128, pages of 16, causal", square(256), causal=True, page=16),)
