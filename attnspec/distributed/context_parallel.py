"""The public way in: a variant as a function of sequence shards, one a process."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from attnspec.api import Attention
from attnspec.distributed.autograd import Together
from attnspec.distributed.estimate import H200, Machine, choose_layout
from attnspec.distributed.job import Starts
from attnspec.distributed.layout import Kind, SequenceLayout, layout_of
from attnspec.distributed.placements import Placed, local
from attnspec.distributed.plan import Plan, Widths, make_plan
from attnspec.distributed.prepare import Layouts, axis_of
from attnspec.distributed.programs import Programs
from attnspec.distributed.ranks import Ranks, ranks_of
from attnspec.distributed.shards import shard, unshard
from attnspec.distributed.together import prepare
from attnspec.distributed.visible import Sight, Sizes, tensors_of
from attnspec.errors import ArgumentError

STRATEGIES = ("ring", "all_gather", "ulysses", "auto")
AUTO_HEADS = 8  # key/value heads that a layout is chosen for before any call is known
MOST_PLANS = 64  # kept


def context_parallel(
    attention: Attention,
    group: Any,
    strategy: str = "ring",
    layout: Kind | tuple[Kind, Kind] = "contiguous",
    *,
    sharded: Iterable[str] = (),
    reduce_learned: bool = True,
    machine: Machine = H200,
) -> "ContextParallel":
    """An attention whose q, k and v are shards of sequences, one a rank.

    group: a ProcessGroup, or a DeviceMesh of one dimension. strategy: "ring" (keys passed round), "all_gather" (all keys on
    every rank), "ulysses" (heads for sequence), "auto" (least by the cost model). layout: "contiguous", "zigzag", "striped:N",
    a SequenceLayout, "auto"; a pair of them for q and for k and v. sharded: declared tensors that calls give in shards, cut
    along len_q (else len_kv) as q (as k) is. reduce_learned: gradients of the other learned tensors are summed over the ranks;
    False where a wrapper such as FSDP sums gradients of parameters itself. machine: what the cost model prices.
    """
    return ContextParallel(attention, ranks_of(group), strategy, layout, tuple(sharded), reduce_learned, machine)


class ContextParallel:
    """A variant over the ranks of a group; every rank must make the same calls in the same order."""

    def __init__(
        self,
        attention: Attention,
        ranks: Ranks,
        strategy: str,
        layout: Kind | tuple[Kind, Kind],
        sharded: tuple[str, ...],
        reduce_learned: bool,
        machine: Machine,
    ) -> None:
        if not isinstance(attention, Attention):
            raise ArgumentError(f"attention: what attnspec.build gives is wanted, got {type(attention).__name__}")
        if strategy not in STRATEGIES:
            raise ArgumentError(f"strategy: {strategy!r}, wanted one of {', '.join(STRATEGIES)}")
        self.attention, self.ranks, self.strategy = attention, ranks, strategy
        self.kinds: tuple[Kind, Kind] = layout if isinstance(layout, tuple) else (layout, layout)
        self.sharded, self.reduce_learned, self.machine = sharded, reduce_learned, machine
        self.programs = Programs(attention)
        self._plans: dict[tuple[Sizes, Layouts], Plan] = {}
        self._chosen: dict[tuple[int, int], Kind] = {}
        for kind in self.kinds:
            if kind != "auto" and not isinstance(kind, SequenceLayout):
                layout_of(kind, 0, ranks.size)
        declared = {tensor.name: tensor for tensor in attention.spec.tensors}
        for name in sharded:
            if name not in declared:
                raise ArgumentError(f"sharded: {attention.spec.name} declares no tensor {name}")
            axis_of(declared[name])

    def __repr__(self) -> str:
        layout = " and ".join(dict.fromkeys(getattr(kind, "name", str(kind)) for kind in self.kinds))
        place = f"rank {self.ranks.rank} of {self.ranks.size}"
        return f"<attnspec.distributed.ContextParallel {self.attention.spec.name}: {self.strategy}, {layout}, {place}>"

    def layouts(self, len_q: int, len_kv: int | None = None) -> Layouts:
        """Who holds which positions of q, and of k and v."""
        len_kv = len_q if len_kv is None else len_kv
        kinds = self.kinds_of(len_q, len_kv)
        return layout_of(kinds[0], len_q, self.ranks.size), layout_of(kinds[1], len_kv, self.ranks.size)

    def choose(self, len_q: int, len_kv: int) -> Kind:
        """The layout that "auto" stands for: the cost model's, or zigzag where what is visible depends on tensors or packing."""
        spec, walk = self.attention.spec, self.attention.analysed.keys
        if spec.is_varlen or tensors_of(walk):
            return "zigzag"
        if (len_q, len_kv) not in self._chosen:
            heads = AUTO_HEADS * (spec.group or 1)
            sight = Sight(walk, Sizes(1, heads, AUTO_HEADS, (len_q,), (len_kv,)))
            widths = Widths(heads, AUTO_HEADS, spec.head_dim, spec.head_dim_v)
            given = (sight, widths, len_q, len_kv, self.ranks.size, self.machine, self.strategy)
            self._chosen[len_q, len_kv] = choose_layout(*given)
        return self._chosen[len_q, len_kv]

    def shard(self, whole: Tensor, dim: int = 1, *, len_q: int | None = None) -> Tensor:
        """This rank's positions of a whole tensor. len_q: where the tensor goes along with keys of another length than q's."""
        length = whole.shape[dim]
        layouts = self.layouts(length if len_q is None else len_q, length)
        return shard(whole, layouts[0 if len_q is None else 1], self.ranks.rank, dim)

    def unshard(self, part: Tensor, dim: int = 1) -> Tensor:
        """The whole of something sharded as q is, on every rank, in order of position."""
        counts = self.ranks.objects("unsharding", part.shape[dim])
        return unshard(part, self.layouts(sum(counts))[0], self.ranks, dim)

    def plan(
        self,
        len_q: int,
        len_kv: int | None = None,
        *,
        batch: int = 1,
        heads: int | None = None,
        kv_heads: int = 1,
        **tensors: Any,
    ) -> Plan:
        """What calls of these sizes compute and send: `plan.explain()`; `plan=` of calls that share their tensors.

        tensors: those that the mask's ranges read, whole. No rank is asked, and no packed sequences are taken.
        """
        spec = self.attention.spec
        if spec.is_varlen:
            raise ArgumentError("plan: packed sequences are planned by their calls")
        len_kv = len_q if len_kv is None else len_kv
        sizes = Sizes(batch, heads or kv_heads * (spec.group or 1), kv_heads, (len_q,), (len_kv,))
        wanted = tensors_of(self.attention.analysed.keys)
        missing = sorted(wanted - set(tensors))
        if missing:
            raise ArgumentError(
                f"plan: what is visible depends on {', '.join(missing)}: give {'them' if missing[1:] else 'it'}, whole"
            )
        arrays = {name: np.asarray(torch.as_tensor(tensors[name]).detach().cpu()) for name in wanted}
        return self.plan_of(sizes, self.layouts(len_q, len_kv), arrays, (None, None))

    @overload
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[False] = False, **tensors: Any) -> Tensor: ...

    @overload
    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[True], **tensors: Any
    ) -> tuple[Tensor, Tensor]: ...

    @torch.compiler.disable  # what is exchanged depends on values: a graph breaks here, by design
    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        return_lse: bool = False,
        deterministic: bool = False,
        cu_seqlens_q: Any = None,
        cu_seqlens_kv: Any = None,
        plan: Plan | None = None,
        **tensors: Any,
    ) -> Any:
        """This rank's rows of out, or of (out, lse), for its shards of q, k and v; all else as in a call of one process.

        cu_seqlens: of all ranks together, the same on each. plan: made by `plan`, so that it is not made anew. DTensors are
        taken by their placements: Shard along the sequence on this group's dimension.
        """
        placed = local(self.ranks, self.attention.spec, (q, k, v), tensors, self.reduce_learned)
        starts = cu_seqlens_q, cu_seqlens_kv
        out, lse = self._call(placed, starts, deterministic, plan)
        return (placed.wrap_out(out), placed.wrap_lse(lse)) if return_lse else placed.wrap_out(out)

    def _call(self, placed: Placed, starts: tuple[Any, Any], deterministic: bool, plan: Plan | None) -> tuple[Tensor, Tensor]:
        """out and lse of this rank's rows; of one process, the plain call's."""
        if self.ranks.size == 1:
            more = {"cu_seqlens_q": starts[0], "cu_seqlens_kv": starts[1], **placed.tensors}
            return self.attention(*placed.arrays, return_lse=True, deterministic=deterministic, **more)
        taken, job = prepare(self, placed, starts, deterministic, plan)
        return Together.apply(job, taken.q, taken.k, taken.v, *taken.tensors)

    def kinds_of(self, len_q: int, len_kv: int) -> tuple[Kind, Kind]:
        """The layouts by name, "auto" chosen."""
        first, second = (self.choose(len_q, len_kv) if kind == "auto" else kind for kind in self.kinds)
        return first, second

    def plan_of(self, sizes: Sizes, layouts: Layouts, arrays: Mapping[str, Any], starts: Starts) -> Plan:
        """A plan; kept where it depends on sizes alone. arrays: the tensors that the mask's ranges read."""
        key = sizes, layouts
        if not arrays and key in self._plans:
            return self._plans[key]
        spec = self.attention.spec
        widths = Widths(sizes.heads, sizes.kv_heads, spec.head_dim, spec.head_dim_v)
        made = make_plan(Sight(self.attention.analysed.keys, sizes, arrays), widths, *layouts, *starts)
        if not arrays:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = made
        return made
