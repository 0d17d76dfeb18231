"""The kernels that a rank runs: its variant, with what is of ranks written out of it."""

from typing import TYPE_CHECKING

import torch

from attnspec.api import Attention
from attnspec.distributed.ranks import Ranks
from attnspec.distributed.rewrite import for_heads, for_one_sequence, without_sink
from attnspec.distributed.ulysses import check_heads, heads_of
from attnspec.distributed.visible import Sizes
from attnspec.language.spec import Spec
from attnspec.runtime.launched_program import LaunchedProgram

if TYPE_CHECKING:
    from attnspec.runtime.call import Program


class Programs:
    """Found once for each form of the variant; `stages` keeps one kernel for all variants of one meaning."""

    def __init__(self, attention: Attention, spare: int = 0) -> None:
        self.attention, self.spare = attention, spare
        self.found: dict[tuple[Spec, torch.device], Program] = {}

    def of(self, spec: Spec, device: torch.device) -> "Program":
        """The program of a spec on a device."""
        key = (spec, device)
        if key not in self.found:
            kind, (_, *options) = self.attention.__reduce__()  # all that it was made of, but another spec
            program = kind(spec, *options).kernel_for(device).program
            self.found[key] = program.sparing(self.spare) if isinstance(program, LaunchedProgram) else program
        return self.found[key]

    def pair(self, spec: Spec, device: torch.device) -> "tuple[Program, Program | None]":
        """With the sink, and without (None where there is none)."""
        return self.of(spec, device), None if spec.sink is None else self.of(without_sink(spec), device)


def spec_of(spec: Spec, strategy: str, ranks: Ranks, sizes: Sizes) -> tuple[Spec, Sizes]:
    """The variant that a rank's kernels run, and the sizes that they see. ArgumentError where heads do not divide."""
    if strategy == "ulysses":
        check_heads(sizes.heads, sizes.kv_heads, ranks.size)
        mine, mine_kv = (heads_of(ranks.rank, count, ranks.size) for count in (sizes.heads, sizes.kv_heads))
        spec = for_heads(spec, mine.start, mine_kv.start, sizes.heads, sizes.kv_heads)
        heads, kv_heads = mine.stop - mine.start, mine_kv.stop - mine_kv.start
        sizes = Sizes(sizes.batch, heads, kv_heads, sizes.lengths_q, sizes.lengths_kv, sizes.is_packed)
    if sizes.is_packed:
        spec = for_one_sequence(spec, sizes.batch)
    return spec, sizes
