"""Calls over ranks as torch sees them: `attnspec::forward_together` and `attnspec::backward_together`.

As with the plain call, two operators do for all variants, strategies and targets. Whatever rests on what other ranks have, the
comparison of calls, the plan and the exchange, is inside: a graph knows the shapes of this rank alone, and its results have the
rows of its q. The variant, the group and the layout come in by their handle, a given plan by its ticket. The backward is told the
rows of all ranks, so that it asks nobody again. The operators have no effects in torch's sense, which would keep calls in order
even if none needs another's result: a checkpoint in a compiled function cannot have them (torch 2.13).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, library

from attnspec.distributed.autograd import backward, forward
from attnspec.distributed.contexts import Spans, context_of, parts_of, variant_of
from attnspec.distributed.placements import Placed
from attnspec.distributed.plan import Plan
from attnspec.distributed.prepare import Given, take, wants
from attnspec.distributed.together import job_for, meet
from attnspec.errors import ArgumentError
from attnspec.language.spec import Tensor as Declared
from attnspec.operators.attend import TAGS, take_starts
from attnspec.operators.gradients import by_declaration, refuse_second
from attnspec.operators.handles import attention_of
from attnspec.runtime.declared import refuse_names, scalar
from attnspec.runtime.tracing import is_transforming

if TYPE_CHECKING:
    from attnspec.distributed.context_parallel import ContextParallel

PLACE = "Tensor? cu_seqlens_q, Tensor? cu_seqlens_kv, Tensor? spans_q, Tensor? spans_kv, Tensor? plan"
OPTIONS = "str context, str sharded, bool[] wanted, bool deterministic, str problem"
INPUTS = f"Tensor q, Tensor k, Tensor v, Tensor[] tensors, {PLACE}, {OPTIONS}"
RESULTS = "Tensor out, Tensor lse, Tensor[] kept, Tensor rows"
FORWARD = f"forward_together({INPUTS}) -> ({RESULTS})"
GRADIENTS = "Tensor dq, Tensor dk, Tensor dv, Tensor[] learned"
BACKWARD = f"backward_together(Tensor dout, Tensor dlse, {RESULTS}, {INPUTS}) -> ({GRADIENTS})"
MORE_TAGS = tuple(getattr(torch.Tag, name) for name in ("cudagraph_unsafe",) if hasattr(torch.Tag, name))  # the host has a part
Results = tuple[Tensor, Tensor, list[Tensor], Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, list[Tensor]]

_library = library.Library("attnspec", "FRAGMENT")
_library.define(FORWARD, tags=(*TAGS, *MORE_TAGS))
_library.define(BACKWARD, tags=(*TAGS, *MORE_TAGS))


def attend_together(
    context: "ContextParallel", placed: Placed, starts: tuple[Any, Any], deterministic: bool, plan: Plan | None
) -> tuple[Tensor, Tensor]:
    """out and lse of this rank's rows, through the dispatcher. What may be wrong on one rank alone is told inside, to all."""
    if is_transforming():
        raise ArgumentError("q: transforms of torch.func do not go through a call over ranks: use autograd, or one process")
    q, k, v = placed.arrays
    for name, array in zip(("q", "k", "v"), placed.arrays):
        if not isinstance(array, Tensor):
            raise ArgumentError(f"{name}: a torch.Tensor is wanted, got {type(array).__name__}")
    spec, tensors, cut = context.attention.spec, [], [None, None]
    problem = wrong_names(context.attention.handle, *placed.tensors)
    try:
        cut = [take_starts(name, one, torch.device("cpu")) for name, one in zip(("cu_seqlens_q", "cu_seqlens_kv"), starts)]
        if not problem:
            tensors = [as_tensor(tensor, placed.tensors[tensor.name], q.device) for tensor in spec.tensors]
    except ArgumentError as error:
        problem = str(error)
    ticket = None if plan is None else plan.ticket
    options = (context.handle, ",".join(placed.sharded), wants((q, k, v, *tensors)), deterministic, problem)
    found = torch.ops.attnspec.forward_together(q, k, v, tensors, *cut, *context.spans, ticket, *options)
    return found[0], found[1]


@torch.compiler.assume_constant_result  # of constants; and how a name is suggested cannot be traced
def wrong_names(variant: str, *names: str) -> str:
    """What is wrong with the names of declared tensors that a call gives; nothing if they are right."""
    spec = attention_of(variant).spec
    try:
        if set(names) != {tensor.name for tensor in spec.tensors}:
            refuse_names(spec, dict.fromkeys(names))
    except ArgumentError as error:
        return str(error)
    return ""


def as_tensor(tensor: Declared, value: Any, device: torch.device) -> Tensor:
    """A declared tensor as it was given; its dtype and shape are looked at inside the operator."""
    found = scalar(tensor, value, device) if isinstance(value, bool | int | float) else value
    if not isinstance(found, Tensor):
        raise ArgumentError(f"{tensor.name}: a torch.Tensor is wanted, got {type(value).__name__}")
    return found


def read(arrays: tuple[Tensor, Tensor, Tensor], tensors: Sequence[Tensor], rest: Any) -> "tuple[ContextParallel, Given]":
    """What an operator was given."""
    *starts, spans_q, spans_kv, ticket, handle, sharded, wanted, deterministic, problem = rest
    spans: Spans = (spans_q, spans_kv)
    context = context_of(handle, spans)
    named = {tensor.name: array for tensor, array in zip(context.attention.spec.tensors, tensors)}
    cut = (*context.sharded, *filter(None, sharded.split(",")))
    plan = context.plans.by_ticket(ticket)
    return context, Given(arrays, named, cut, (starts[0], starts[1]), deterministic, plan, wanted, problem)


def run_forward(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor], *rest: Any) -> Results:
    """`attnspec::forward_together` on tensors with memory."""
    context, given = read((q, k, v), tensors, rest)
    taken, rows = meet(context, given)
    out, lse, kept = forward(job_for(context, taken, rows, given.deterministic, given.plan), q, k, v)
    return out, lse, list(kept), torch.tensor(rows, dtype=torch.int64, device="cpu")


def run_backward(
    dout: Tensor, dlse: Tensor, out: Tensor, lse: Tensor, kept: Sequence[Tensor], rows: Tensor, *inputs: Any
) -> Gradients:
    """`attnspec::backward_together` on tensors with memory. Shards of declared tensors are gathered again."""
    q, k, v, tensors, *rest = inputs
    context, given = read((q, k, v), tensors, rest)
    counts = [(int(count), int(count_kv)) for count, count_kv in rows.tolist()]
    job = job_for(context, take(context.attention.spec, given), counts, given.deterministic, given.plan)
    dtypes = [array.dtype for array in tensors]
    found = backward(job, (q, k, v), (out, lse, tuple(kept)), dout, dlse, dtypes)
    dq, dk, dv, *learned = (one.contiguous() for one in found if one is not None)
    return dq, dk, dv, learned


def look_forward(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor], *rest: Any) -> Results:
    """`attnspec::forward_together` on tensors without memory. It checks nothing: an error here would be this rank's alone."""
    handle = rest[5]
    attention = attention_of(variant_of(handle))
    *rows, heads, _ = q.shape
    lse_shape = (heads, *rows) if attention.spec.is_varlen else (*rows[:1], heads, *rows[1:])
    out, lse = q.new_empty((*rows, heads, attention.spec.head_dim_v)), q.new_empty(lse_shape, dtype=torch.float32)
    kept = [torch.empty_like(out, dtype=torch.float32), torch.empty_like(lse)] if attention.is_reference_on(q.device) else []
    return out, lse, kept, torch.empty(parts_of(handle)["ranks"], 2, dtype=torch.int64, device="cpu")


def look_backward(
    dout: Tensor, dlse: Tensor, out: Tensor, lse: Tensor, kept: Sequence[Tensor], rows: Tensor, *inputs: Any
) -> Gradients:
    """`attnspec::backward_together` on tensors without memory."""
    q, k, v, tensors, *rest = inputs
    declared = attention_of(variant_of(rest[5])).spec.tensors
    learned = [array.new_empty(array.shape) for array, tensor in zip(tensors, declared) if tensor.is_learned]
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), learned


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    """What the backward wants of the forward."""
    q, k, v, tensors, *place = inputs
    out, lse, kept, rows = output
    ctx.count, ctx.options = len(tensors), tuple(place[5:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *place[:5], out, lse, rows, *tensors, *kept)


def differentiate(ctx: Any, dout: Tensor | None, dlse: Tensor | None, *_: Any) -> tuple[Any, ...]:
    """Gradients by argument; a missing gradient of out or lse is zero."""
    q, k, v, *more = ctx.saved_tensors
    place, (out, lse, rows), arrays = more[:5], more[5:8], more[8:]
    tensors, kept = arrays[: ctx.count], arrays[ctx.count :]
    dout = torch.zeros_like(out) if dout is None else dout
    dlse = torch.zeros_like(lse) if dlse is None else dlse
    inputs = (q, k, v, tensors, *place, *ctx.options)
    dq, dk, dv, learned = torch.ops.attnspec.backward_together(dout, dlse, out, lse, kept, rows, *inputs)
    return dq, dk, dv, by_declaration(variant_of(ctx.options[0]), learned), *[None] * (len(place) + len(ctx.options))


for _name, _run, _look in (("forward", run_forward, look_forward), ("backward", run_backward, look_backward)):
    _library.impl(f"{_name}_together", _run, "CompositeExplicitAutograd")
    library.register_fake(f"attnspec::{_name}_together", _look, lib=_library)
library.register_autograd("attnspec::forward_together", differentiate, setup_context=keep, lib=_library)
library.register_autograd("attnspec::backward_together", refuse_second, lib=_library)
