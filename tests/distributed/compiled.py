"""Compiled calls over processes: what runs in the processes."""

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.utils.checkpoint import checkpoint

import attnspec
from attnspec.distributed import context_parallel, contexts, layout_from
from tests.distributed import faults, models
from tests.printed_graphs import printed_by

BACKEND = "aot_eager"
Run = Callable[..., tuple[Tensor, Tensor]]


def gradients(run: Run, arrays: list[Tensor]) -> list[Tensor]:
    """out, lse and the gradient of each array."""
    leaves = [array.detach().clone().requires_grad_() for array in arrays]
    out, lse = run(*leaves)
    (out.float().square().sum() + lse.sum()).backward()
    return [out.detach(), lse.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def are_equal(found: list[Tensor], wanted: list[Tensor]) -> bool:
    """Bit by bit."""
    return len(found) == len(wanted) and all(map(torch.equal, found, wanted))


def compiled(run: Any, backend: Any = BACKEND, **options: Any) -> Any:
    """Without graph breaks."""
    return torch.compile(run, fullgraph=True, backend=backend, **options)


def drawn(group: ProcessGroup, context: Any) -> list[Tensor]:
    """Shards of q, k, v, and the learned tensors."""
    q, k, v, sinks, decay = models.drawn()
    return [*(context.shard(one) for one in (q, k, v)), sinks, decay]


def in_between(group: ProcessGroup, backend: str = BACKEND) -> tuple[bool, bool]:
    """Two calls amid other work, one of them in a checkpoint: as eager, and so does an eager checkpoint."""
    torch.compiler.reset()
    context = context_parallel(attnspec.build(models.VARIANT), group, "ring", "zigzag")
    arrays = drawn(group, context)

    def attend(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, decay: Tensor) -> Any:
        return context(q, k, v, return_lse=True, sinks=sinks, decay=decay)

    def plain(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        out, first = attend(q * 2, k, v, sinks, decay)
        out, second = attend(out, k, v, sinks, decay)
        return out.abs() + 1, first - second

    def saved(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        out, first = checkpoint(attend, q * 2, k, v, sinks, decay, use_reentrant=False)
        out, second = attend(out, k, v, sinks, decay)
        return out.abs() + 1, first - second

    wanted = gradients(plain, arrays)
    return are_equal(gradients(compiled(saved, backend), arrays), wanted), are_equal(gradients(saved, arrays), wanted)


def printed(group: ProcessGroup) -> list[str]:
    """The nodes of a compiled call and of its backward."""
    context = context_parallel(attnspec.build(models.VARIANT), group, "ring", "zigzag")
    arrays = drawn(group, context)

    def attend(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, decay: Tensor) -> Any:
        return context(q, k, v, return_lse=True, sinks=sinks, decay=decay)

    return printed_by(lambda backend: gradients(compiled(attend, backend), arrays))


def lengths(group: ProcessGroup) -> tuple[list[bool], int]:
    """Compiled calls of several lengths, uneven ones too, and how many graphs they took."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend(BACKEND)
    context = context_parallel(attnspec.build(faults.CAUSAL), group)
    run = compiled(context, counter, dynamic=True)
    found = []
    for length in (12, 31, 58):
        arrays = [context.shard(one).requires_grad_() for one in faults.draw(length)]
        found.append(bool(run(*arrays).equal(context(*arrays))))
    return found, counter.frame_count


def batches(group: ProcessGroup) -> tuple[list[bool], int, int]:
    """Batches of documents, each with its layout and its plan: whether as eager, graphs, and plans that were made."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend(BACKEND)
    attention = attnspec.build(faults.DOCUMENTS)
    first = context_parallel(attention, group)

    run = compiled(attend, counter, dynamic=True)
    same, made = [], 0
    for number in range(3):
        cuts = [(9 + number, 1), (17, 0), (5, 1), (9 - number, 0)]
        context = first.with_layout(layout_from("cut", cuts, 2))
        ids = torch.arange(40, dtype=torch.int32)[None] // (7 + number)
        plan = context.plan(40, heads=2, kv_heads=2, ids_q=ids, ids_kv=ids)
        before = len(context.plans.valued)
        arrays = [context.shard(one) for one in faults.draw(40)]
        found = gradients(partial(run, context, plan, ids), arrays)
        made += len(context.plans.valued) - before
        same.append(are_equal(found, gradients(partial(attend, context, None, ids), arrays)))
    return same, counter.frame_count, made


def attend(context: Any, plan: Any, ids: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    """A call over documents."""
    return context(q, k, v, return_lse=True, plan=plan, ids_q=ids, ids_kv=ids)


def placed(group: ProcessGroup) -> bool:
    """A call on DTensors."""
    torch.compiler.reset()
    mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("cp",))
    q, k, v, sinks, decay = models.drawn()
    parts = [DTensor.from_local(models.shard(one, group), mesh, [Shard(1)], run_check=False) for one in (q, k, v)]
    learned = [DTensor.from_local(one, mesh, [Replicate()], run_check=False) for one in (sinks, decay)]
    context = context_parallel(attnspec.build(models.VARIANT), mesh)

    def run(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, decay: Tensor) -> Any:
        return context(q, k, v, return_lse=True, sinks=sinks, decay=decay)

    def results(run: Any) -> list[Tensor]:
        leaves = [one.detach().requires_grad_() for one in (*parts, *learned)]
        out, lse = run(*leaves)
        (out.to_local().float().square().sum() + lse.to_local().sum()).backward()
        return [one.full_tensor().detach() for one in (out, lse, *(leaf.grad for leaf in leaves))]

    return are_equal(results(compiled(run)), results(run))


def wrapped(group: ProcessGroup, is_outside: bool) -> list[float]:
    """Losses of a model whose parameters FSDP2 shards, compiled before it is wrapped, or as it is called."""
    torch.compiler.reset()
    model, tokens = models.make_model(), models.text()
    context = context_parallel(model.attend, group, "ring", "zigzag", reduce_learned=False)
    model.attend = context
    given, wanted = context.shard(tokens[:, :-1].contiguous()), context.shard(tokens[:, 1:].contiguous())
    if not is_outside:
        model.forward = compiled(model.forward)
    models.shard_parameters(model, group)
    run = torch.compile(model, backend=BACKEND) if is_outside else model
    return models.losses_of(model, run, given, wanted, group)


def without_context(group: ProcessGroup) -> tuple[bool, bool, bool]:
    """A graph that outlives its context: whether that is gone, the graph runs on, and no more than one is held for it."""
    torch.compiler.reset()
    context = context_parallel(attnspec.build(faults.CAUSAL), group, "all_gather")
    arrays = [context.shard(one) for one in faults.draw(20)]
    wanted, handle, gone = context(*arrays), context.handle, weakref.ref(context)
    del context
    gc.collect()
    contexts._made_again.clear()
    rest = (None, None, None, None, None, handle, "", [False] * 3, False, "")
    found = [torch.ops.attnspec.forward_together(*arrays, [], *rest)[0] for _ in range(3)]
    return gone() is None, all(one.equal(wanted) for one in found), len(contexts._made_again) == 1
