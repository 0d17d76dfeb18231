"""The public way in: a variant as a function of sequence shards, one a process."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, overload

import torch
from torch import Tensor

from attnspec.api import Attention
from attnspec.distributed.autograd import Together
from attnspec.distributed.contexts import handle_of, remember, spans_of
from attnspec.distributed.estimate import H200, Machine, choose_layout
from attnspec.distributed.job import Starts
from attnspec.distributed.layout import Kind, SequenceLayout, layout_of
from attnspec.distributed.load import Widths
from attnspec.distributed.operators import attend_together
from attnspec.distributed.placements import Placed, local
from attnspec.distributed.plan import Plan
from attnspec.distributed.plans import Plans
from attnspec.distributed.prepare import Given, Layouts, axis_of
from attnspec.distributed.programs import Programs
from attnspec.distributed.ranks import Ranks, ranks_of
from attnspec.distributed.shards import shard, unshard
from attnspec.distributed.together import job_for, meet
from attnspec.distributed.visible import Sight, Sizes, as_values, tensors_of
from attnspec.errors import ArgumentError
from attnspec.runtime.tracing import is_traced

STRATEGIES = ("ring", "all_gather", "ulysses", "auto")
AUTO_HEADS = 8  # key/value heads that a layout is chosen for before any call is known


def context_parallel(
    attention: Attention,
    group: Any,
    strategy: str = "ring",
    layout: Kind | tuple[Kind, Kind] = "contiguous",
    *,
    sharded: Iterable[str] = (),
    reduce_learned: bool = True,
    machine: Machine = H200,
    spare: int = 0,
) -> "ContextParallel":
    """An attention whose q, k and v are shards of sequences, one a rank.

    group: a ProcessGroup, or a DeviceMesh of one dimension. strategy: "ring" (keys passed round), "all_gather" (all keys on
    every rank), "ulysses" (heads for sequence), "auto" (least by the cost model). layout: "contiguous", "zigzag", "striped:N",
    a SequenceLayout, "auto"; a pair of them for q and for k and v. sharded: declared tensors that calls give in shards, cut
    along len_q (else len_kv) as q (as k) is. reduce_learned: gradients of the other learned tensors are summed over the ranks;
    False where a wrapper such as FSDP sums gradients of parameters itself. machine: what the cost model prices. spare:
    multiprocessors of a GPU that kernels leave to the exchange.
    """
    return ContextParallel(attention, ranks_of(group), strategy, layout, tuple(sharded), reduce_learned, machine, spare)


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
        spare: int = 0,
    ) -> None:
        if not isinstance(attention, Attention):
            raise ArgumentError(f"attention: what attnspec.build gives is wanted, got {type(attention).__name__}")
        if strategy not in STRATEGIES:
            raise ArgumentError(f"strategy: {strategy!r}, wanted one of {', '.join(STRATEGIES)}")
        self.attention, self.ranks, self.strategy = attention, ranks, strategy
        self.kinds: tuple[Kind, Kind] = layout if isinstance(layout, tuple) else (layout, layout)
        self.sharded, self.reduce_learned, self.machine = sharded, reduce_learned, machine
        self.programs = Programs(attention, spare)
        self.plans = Plans()
        # A graph of torch's holds these two of it. Made now: torch.compile does not see into a cached property.
        self.handle, self.spans = handle_of(self), (spans_of(self.kinds[0]), spans_of(self.kinds[1]))
        self.is_alone = ranks.size == 1
        self._chosen: dict[tuple[int, int], Kind] = {}
        for kind in self.kinds:
            if kind != "auto" and not isinstance(kind, SequenceLayout):
                layout_of(kind, 0, ranks.size)
        declared = {tensor.name: tensor for tensor in attention.spec.tensors}
        for name in sharded:
            if name not in declared:
                raise ArgumentError(f"sharded: {attention.spec.name} declares no tensor {name}")
            axis_of(declared[name])
        remember(self)

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
        """The layout of rows that "auto" stands for: the cost model's, or zigzag where the model would need tensors (`pick`)."""
        spec = self.attention.spec
        if spec.is_varlen or tensors_of(self.attention.analysed.keys):
            return "zigzag"
        if (len_q, len_kv) not in self._chosen:
            heads = AUTO_HEADS * (spec.group or 1)
            self._chosen[len_q, len_kv] = self.pick(len_q, len_kv, heads=heads, kv_heads=AUTO_HEADS)
        return self._chosen[len_q, len_kv]

    def pick(self, len_q: int, len_kv: int | None = None, **call: Any) -> SequenceLayout:
        """The layout of rows that the cost model finds best for calls such as `plan` takes; no rank is asked."""
        sight = self._sight(len_q, len_q if len_kv is None else len_kv, **call)
        return choose_layout(sight, self._widths(sight.sizes), self.ranks.size, self.machine, self.strategy)

    def with_layout(self, layout: Kind | tuple[Kind, Kind]) -> "ContextParallel":
        """The same with shards cut otherwise: for layouts that change with the documents of a batch."""
        options = self.strategy, layout, self.sharded, self.reduce_learned, self.machine, self.programs.spare
        made = ContextParallel(self.attention, self.ranks, *options)
        made.programs = self.programs
        return made

    def shard(self, whole: Tensor, dim: int = 1, *, len_q: int | None = None) -> Tensor:
        """This rank's positions of a whole tensor. len_q: where the tensor goes along with keys of another length than q's."""
        length = whole.shape[dim]
        layouts = self.layouts(length if len_q is None else len_q, length)
        return shard(whole, layouts[0 if len_q is None else 1], self.ranks.rank, dim)

    def unshard(self, part: Tensor, dim: int = 1) -> Tensor:
        """The whole of something sharded as q is, on every rank, in order of position."""
        counts = self.ranks.objects("unsharding", part.shape[dim])
        return unshard(part, self.layouts(sum(counts))[0], self.ranks, dim)

    def plan(self, len_q: int, len_kv: int | None = None, **call: Any) -> Plan:
        """What calls of these sizes compute and send: `plan.explain()`; `plan=` of calls that share their tensors.

        call: batch (1), heads (a group a key/value head), kv_heads (1), and the tensors that the mask's ranges read, whole. No
        rank is asked, and no packed sequences are taken.
        """
        len_kv = len_q if len_kv is None else len_kv
        sight = self._sight(len_q, len_kv, **call)
        return self.plan_of(sight.sizes, self.layouts(len_q, len_kv), sight.tensors, (None, None))

    def _sight(
        self, len_q: int, len_kv: int, *, batch: int = 1, heads: int | None = None, kv_heads: int = 1, **tensors: Any
    ) -> Sight:
        """What calls of these sizes see."""
        spec, walk = self.attention.spec, self.attention.analysed.keys
        if spec.is_varlen:
            raise ArgumentError(f"{spec.name}: packed sequences are planned by their calls")
        wanted = tensors_of(walk)
        missing = sorted(wanted - set(tensors))
        if missing:
            raise ArgumentError(f"plan: what is visible depends on {', '.join(missing)}, which a plan needs whole")
        arrays = {name: as_values(torch.as_tensor(tensors[name]).detach().cpu().numpy()) for name in wanted}
        sizes = Sizes(batch, heads or kv_heads * (spec.group or 1), kv_heads, (len_q,), (len_kv,))
        return Sight(walk, sizes, arrays)

    def _widths(self, sizes: Sizes) -> Widths:
        """What a position holds."""
        return Widths(sizes.heads, sizes.kv_heads, self.attention.spec.head_dim, self.attention.spec.head_dim_v)

    @overload
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[False] = False, **tensors: Any) -> Tensor: ...

    @overload
    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, return_lse: Literal[True], **tensors: Any
    ) -> tuple[Tensor, Tensor]: ...

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
        if self.is_alone:
            more = {"cu_seqlens_q": starts[0], "cu_seqlens_kv": starts[1], **placed.tensors}
            return self.attention(*placed.arrays, return_lse=True, deterministic=deterministic, **more)
        if is_traced((*placed.arrays, *placed.tensors.values())):
            return attend_together(self, placed, starts, deterministic, plan)
        given = Given(placed.arrays, placed.tensors, (*self.sharded, *placed.sharded), starts, deterministic, plan)
        taken, rows = meet(self, given)
        job = job_for(self, taken, rows, deterministic, plan)
        return Together.apply(job, taken.q, taken.k, taken.v, *taken.tensors)

    def kinds_of(self, len_q: int, len_kv: int) -> tuple[Kind, Kind]:
        """The layouts by name, "auto" chosen: keys go as rows do, or contiguous where their lengths differ."""
        rows, keys = self.kinds
        if rows == "auto":
            rows = self.choose(len_q, len_kv)
        if keys == "auto":
            keys = rows if len_q == len_kv or isinstance(rows, str) else "contiguous"
        return rows, keys

    def plan_of(self, sizes: Sizes, layouts: Layouts, arrays: Mapping[str, Any], starts: Starts) -> Plan:
        """A plan. arrays: the tensors that the mask's ranges read."""
        return self.plans.of(Sight(self.attention.analysed.keys, sizes, arrays), self._widths(sizes), layouts, starts)
