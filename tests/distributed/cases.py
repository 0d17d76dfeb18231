"""Calls over processes and on one, on the same inputs; what runs in the processes is here, so that they can import it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from attnspec.runtime.compare import Row, judge
from attnspec.runtime.compare import run as run_alone
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape
from torch import Tensor
from torch.distributed import ProcessGroup

import attnspec
from attnspec.distributed import context_parallel
from attnspec.distributed.layout import Kind, SequenceLayout, layout_of
from attnspec.language.spec import Spec
from tests.small_constants import SMALL, path_of

LARGEST_GROUP = 2


@dataclass(frozen=True)
class Case:
    """A call. variant: a name or a text. backend: of torch.compile, None for a call that is not compiled. target: of the
    emulator, None for the reference.
    """

    variant: str
    shape: Shape
    strategy: str = "ring"
    layout: Kind = "contiguous"
    seed: int = 1
    sharded: tuple[str, ...] = ()
    backend: str | None = None
    target: str | None = None

    def spec(self) -> Spec:
        """With a group that few heads are enough for."""
        known = "\n" not in self.variant
        source = path_of(self.variant) if known else self.variant
        spec = attnspec.build(source, **(SMALL.get(self.variant, {}) if known else {})).spec
        return replace(spec, group=min(spec.group, LARGEST_GROUP)) if spec.group is not None else spec

    def build(self, spec: Spec) -> attnspec.Attention:
        """For its target."""
        return attnspec.build(spec) if self.target is None else attnspec.build(spec, target=self.target, on="emulator")

    def inputs(self, spec: Spec) -> Inputs:
        """The whole inputs, the same in every process."""
        return draw_inputs(spec, fit_shape(spec, self.shape), self.seed)


def layouts(case: Case, inputs: Inputs, ranks: int) -> tuple[SequenceLayout, SequenceLayout]:
    """Of rows and of keys."""
    return layout_of(case.layout, inputs.q.shape[-3], ranks), layout_of(case.layout, inputs.k.shape[-3], ranks)


def shard_of(array: Tensor, layout: SequenceLayout, rank: int, axis: int) -> Tensor:
    """A rank's positions, as a leaf."""
    return array.index_select(axis, torch.from_numpy(layout.positions(rank))).detach().clone()


def run_case(group: ProcessGroup, case: Case) -> dict[str, Tensor]:
    """Results and gradients of this rank, by name."""
    spec = case.spec()
    inputs, rank, size = case.inputs(spec), group.rank(), group.size()
    context = context_parallel(case.build(spec), group, case.strategy, case.layout, sharded=case.sharded)
    attention: Any = context
    if case.backend is not None:
        torch.compiler.reset()
        attention = torch.compile(context, fullgraph=True, backend=case.backend)
    rows, keys = layouts(case, inputs, size)
    at = 0 if spec.is_varlen else 1
    leaves = {"q": shard_of(inputs.q, rows, rank, at), "k": shard_of(inputs.k, keys, rank, at)}
    leaves["v"] = shard_of(inputs.v, keys, rank, at)
    tensors = dict(inputs.tensors)
    for tensor in spec.tensors:
        if tensor.name in case.sharded:
            axis, layout = cut(tensor.shape, rows, keys)
            tensors[tensor.name] = shard_of(tensors[tensor.name], layout, rank, axis)
    for name in context.attention.learned:
        leaves[name] = tensors[name] = tensors[name].detach().clone()
    for leaf in leaves.values():
        leaf.requires_grad_()
    out, lse = attention(leaves["q"], leaves["k"], leaves["v"], return_lse=True, **inputs.keywords, **tensors)
    last = inputs.dlse.dim() - 1
    upstream = shard_of(inputs.dout, rows, rank, at), shard_of(inputs.dlse, rows, rank, last)
    gradients = torch.autograd.grad((out, lse), list(leaves.values()), upstream)
    return {"out": out.detach(), "lse": lse.detach(), **dict(zip(leaves, gradients, strict=True))}


def cut(shape: Any, rows: SequenceLayout, keys: SequenceLayout) -> tuple[int, SequenceLayout]:
    """The axis along which a declared tensor is cut, and how."""
    names = [getattr(extent, "name", "") for extent in shape]
    return (names.index("len_q"), rows) if "len_q" in names else (names.index("len_kv"), keys)


def joined(case: Case, spec: Spec, inputs: Inputs, found: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Shards put together; what every rank has whole is taken from the first, once all have the same."""
    rows, keys = layouts(case, inputs, len(found))
    at = 0 if spec.is_varlen else 1
    axes = {"out": (at, rows), "q": (at, rows), "k": (at, keys), "v": (at, keys), "lse": (inputs.dlse.dim() - 1, rows)}
    axes |= {tensor.name: cut(tensor.shape, rows, keys) for tensor in spec.tensors if tensor.name in case.sharded}
    whole = {}
    for name in found[0]:
        if name in axes:
            axis, layout = axes[name]
            end_to_end = torch.cat([results[name] for results in found], axis)
            whole[name] = end_to_end.index_select(axis, torch.from_numpy(layout.order).argsort())
        else:
            assert all(results[name].equal(found[0][name]) for results in found), f"{name} differs between ranks"
            whole[name] = found[0][name]
    return whole


def outcome(processes: Any, case: Case, size: int) -> tuple[list[Row], Mapping[str, Tensor], Mapping[str, Tensor]]:
    """What is wrong against the float64 oracle; the results of the processes; those of one process."""
    spec = case.spec()
    inputs, attention = case.inputs(spec), case.build(spec)
    together = joined(case, spec, inputs, processes.run(size, run_case, case))
    alone = run_alone(attention, inputs, False) if case.target is None else {}
    rows = judge(attention, inputs, [together], False)
    return [row for row in rows if not row.is_right], together, alone
