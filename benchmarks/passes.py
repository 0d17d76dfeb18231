"""`python -m benchmarks.passes`: bytes that torch's operations move on a rank around the kernels of a call over ranks.

Kernels and links are left out: a program of no results stands for the one, ranks that send nothing for the other, and tensors
have no memory. So a whole call of any length takes a moment, and whatever looks at a value fails.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from attnspec.runtime.call import Call, Forward, Gradients
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import attnspec
from attnspec.distributed.autograd import backward, forward
from attnspec.distributed.compute import Variant
from attnspec.distributed.estimate import H200, choose_layout
from attnspec.distributed.job import Job
from attnspec.distributed.layout import layout_of
from attnspec.distributed.load import Widths
from attnspec.distributed.plan import Plan, make_plan
from attnspec.distributed.ranks import Pending, Ranks
from attnspec.distributed.simulate import documents
from attnspec.distributed.visible import Sight, Sizes
from attnspec.distributed.visible import tensors_of as read_by
from benchmarks.context_parallel import HEAD, MEAN_DOCUMENT, VARIANTS

WRITTEN_WHOLE = {"copy_", "zero_", "fill_"}  # without being read
HEADS, KV_HEADS, WIDTH = 16, 4, 128


def size_of(tensor: Tensor) -> int:
    """Bytes that have to be read or written; what is spread over an axis counts once."""
    return math.prod([n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step or not n]) * tensor.element_size()


def tensors_of(value: Any) -> list[Tensor]:
    """Those of an argument or of results."""
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, Tensor)]


@dataclass
class Moved(TorchDispatchMode):
    """Bytes that operations read and write while it is on, and how many they are."""

    moved: int = 0
    operations: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Of one operation; views and empty rooms cost nothing."""
        kwargs = kwargs or {}
        found, schema = func(*args, **kwargs), func._schema
        name, named = schema.name.split("::")[1], [at for at in schema.arguments if at.name in kwargs]
        given = [*zip(schema.arguments, args, strict=False), *((at, kwargs[at.name]) for at in named)]
        read, written = [], []
        for at, value in given:
            is_written = at.alias_info is not None and at.alias_info.is_write
            written += tensors_of(value) if is_written else []
            read += [] if is_written and (at.is_out or name in WRITTEN_WHOLE) else tensors_of(value)
        is_view = not written and any(result.alias_info is not None for result in schema.returns)
        if not is_view and "empty" not in name:
            self.moved += sum(map(size_of, (*read, *(written or tensors_of(found)))))
            self.operations += 1
        return found


@dataclass
class NoKernel:
    """A program of 16 bits whose results are rooms. rows: of each of its calls."""

    rows: list[int] = field(default_factory=list)

    def forward(self, call: Call, /) -> Forward:
        """Rooms."""
        self.rows.append(call.q.shape[1])
        batch, count, heads, _ = call.q.shape
        out = call.q.new_empty(batch, count, heads, call.v.shape[-1])
        return Forward(out, call.q.new_empty(batch, heads, count, dtype=torch.float32), ())

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Rooms; what is given has to be as kernels take it."""
        self.rows.append(call.q.shape[1])
        given = (results.out, results.lse, dout, dlse)
        if results.out.dtype != call.q.dtype or not all(one.is_contiguous() for one in given):
            raise ValueError("out in the dtype of q, and all contiguous, is wanted")
        dq, dk, dv = (one.new_empty(one.shape) for one in (call.q, call.k, call.v))
        return Gradients(dq, dk, dv, (None,) * len(call.tensors))


class NoRanks(Ranks):
    """Ranks between which nothing travels."""

    def exchange(self, what: str, sends: Any, receives: Any) -> Pending:
        """Nothing; what is sent has to lie end to end."""
        if not all(tensor.is_contiguous() for _, tensor in (*sends, *receives)):
            raise ValueError("links take contiguous tensors")
        return Pending(self, what, [], [], [])

    def all_gather(self, what: str, tensor: Tensor) -> Tensor:
        """A room."""
        return tensor.contiguous().new_empty(self.size, *tensor.shape)

    def all_to_all(self, what: str, tensor: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """A room."""
        return tensor.contiguous().new_empty(sum(received), *tensor.shape[1:])


@dataclass(frozen=True)
class Passes:
    """Of a rank's call."""

    moved: int
    operations: int
    rows: list[int]


def passes(plan: Plan, strategy: str, rank: int, inputs: int = 0) -> tuple[Passes, Passes]:
    """Of a forward and of a backward. inputs: declared tensors, of a batch of one."""
    sizes, widths, ranks = plan.sight.sizes, plan.widths, plan.ranks
    share = ranks if strategy == "ulysses" else 1
    mine = Sizes(sizes.batch, sizes.heads // share, sizes.kv_heads // share, sizes.lengths_q, sizes.lengths_kv)
    program = NoKernel()
    variant = Variant(program, None, (torch.empty(1, device="meta"),) * inputs, mine, widths.head_dim, widths.width_v, False)
    place: Any = SimpleNamespace()
    job = Job(NoRanks(place, rank, ranks), strategy, plan, variant, (None, None), (False,) * inputs, (), True)
    counts = plan.layout_q.counts[rank], plan.layout_kv.counts[rank], plan.layout_kv.counts[rank]
    heads, dims = (sizes.heads, *[sizes.kv_heads] * 2), (widths.head_dim, widths.head_dim, widths.width_v)
    q, k, v = (torch.empty(sizes.batch, *shape, dtype=torch.bfloat16, device="meta") for shape in zip(counts, heads, dims))
    with Moved() as first:
        out, lse, kept = forward(job, q, k, v)
    begun, dout, dlse = len(program.rows), torch.empty_like(out), torch.empty_like(lse)
    with Moved() as second:
        backward(job, (q, k, v), (out, lse, kept), dout, dlse, [torch.float32] * inputs)
    return (
        Passes(first.moved, first.operations, program.rows[:begun]),
        Passes(second.moved, second.operations, program.rows[begun:]),
    )


def plan_for(variant: str, length: int, ranks: int, layout: str | None) -> Plan:
    """The plan of a variant of `benchmarks.context_parallel` with its sizes. layout: None for what the cost model picks."""
    walk = attnspec.build(HEAD.format(name=variant, width=WIDTH) + VARIANTS[variant]).analysed.keys
    ids = documents(length, MEAN_DOCUMENT, 1)
    sight = Sight(walk, Sizes(1, HEADS, KV_HEADS, (length,), (length,)), dict.fromkeys(read_by(walk), ids))
    widths = Widths(HEADS, KV_HEADS, WIDTH, WIDTH)
    chosen = layout_of(layout, length, ranks) if layout else choose_layout(sight, widths, ranks, H200)
    return make_plan(sight, widths, chosen, chosen)


def main() -> None:
    """A row a variant, length and rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[65536, 262144])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--strategy", default="ring")
    parser.add_argument("--layout", help="of all variants; what the cost model picks without it")
    given = parser.parse_args()
    print("| | positions | layout | rank | kernel calls | rows of them | MB, forward | operations | MB, backward | operations |")
    print("| --- | ---: | --- |" + " ---: |" * 7)
    for variant, length in [(name, length) for name in ("causal", "window", "documents") for length in given.lengths]:
        plan = plan_for(variant, length, given.ranks, given.layout)
        for rank in range(given.ranks):
            both = passes(plan, given.strategy, rank, 2 if variant == "documents" else 0)
            calls = f"{len(both[0].rows)} | {sum(both[0].rows)}"
            moved = " | ".join(f"{one.moved / 1e6:.0f} | {one.operations}" for one in both)
            print(f"| {variant} | {length} | {plan.layout_q.name} | {rank} | {calls} | {moved} |")


if __name__ == "__main__":
    main()
