"""Calls as torch sees them: `attnspec::forward` and `attnspec::backward`, two operators for all variants and all targets.

A variant is named by its handle, a text that holds the whole spec: a graph that was exported and loaded in another process finds
its kernels again once this module is imported. A call that nothing watches skips the operators: torch's dispatcher and generated
autograd take longer than the launch of a kernel. Both ways check the same arguments and run the same programs.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, library

from attnspec.errors import ArgumentError
from attnspec.operators.batching import loop_over
from attnspec.operators.gradients import TransformedForward, differentiate, keep, refuse_second
from attnspec.operators.handles import attention_of, remember
from attnspec.runtime.arguments import Placing, check_heads, check_kinds
from attnspec.runtime.call import Forward
from attnspec.runtime.checked import WHOLE
from attnspec.runtime.declared import take_declared
from attnspec.runtime.tracing import is_traced, is_transforming, refuse_forward_mode

if TYPE_CHECKING:
    from attnspec.api import Attention

PLACE = "Tensor? cu_seqlens_q, Tensor? cu_seqlens_kv, SymInt q_offset, SymInt kv_offset, SymInt? len_q, SymInt? len_kv"
INPUTS = f"Tensor q, Tensor k, Tensor v, Tensor[] tensors, {PLACE}, str variant, bool deterministic"
RESULTS = "Tensor out, Tensor lse, Tensor[] kept"
FORWARD = f"forward({INPUTS}) -> ({RESULTS})"
BACKWARD = f"backward(Tensor dout, Tensor dlse, {RESULTS}, {INPUTS}) -> (Tensor dq, Tensor dk, Tensor dv, Tensor[] learned)"
NO_PLACE = (None, None, 0, 0, None, None)
TAGS = tuple(getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, name))
Pair = tuple[Tensor, Tensor]

_library = library.Library("attnspec", "DEF")
_library.define(FORWARD, tags=TAGS)
_library.define(BACKWARD, tags=TAGS)


def attend(
    attention: "Attention", q: Tensor, k: Tensor, v: Tensor, given: Mapping[str, Any], place: tuple[Any, ...], deterministic: bool
) -> Pair:
    """out and lse of a call. place: cu_seqlens_q, cu_seqlens_kv, q_offset, kv_offset, len_q, len_kv."""
    if is_traced((q, k, v, *given.values())):
        return attend_as_operator(attention, q, k, v, given, place, deterministic)
    placing = WHOLE if place == NO_PLACE else Placing(*place)
    try:
        call = attention.checks.call(q, k, v, given, placing, deterministic)
    except RuntimeError:  # what torch raises where the size of a nested tensor is asked for
        refuse_nested({"q": q, "k": k, "v": v, **given})
        raise
    return attention.kernel_for(q.device)(call)


def attend_as_operator(
    attention: "Attention", q: Tensor, k: Tensor, v: Tensor, given: Mapping[str, Any], place: tuple[Any, ...], deterministic: bool
) -> Pair:
    """The same through the dispatcher. What a schema cannot say is checked here, the rest where the operator is run."""
    refuse_forward_mode()
    if not torch.compiler.is_compiling():
        refuse_nested({"q": q, "k": k, "v": v, **given})
    for name, array in (("q", q), ("k", k), ("v", v)):
        if not isinstance(array, Tensor):
            raise ArgumentError(f"{name}: a torch.Tensor is wanted, got {type(array).__name__}")
    tensors = list(take_declared(attention.spec, given, q.device))
    starts = [take_starts(name, one, q.device) for name, one in zip(("cu_seqlens_q", "cu_seqlens_kv"), place[:2])]
    rest = (*starts, *place[2:], remember(attention), deterministic)
    if is_transforming():
        found = TransformedForward.apply(rest, q, k, v, *tensors)
    else:
        found = torch.ops.attnspec.forward(q, k, v, tensors, *rest)
    return found[0], found[1]


def refuse_nested(arrays: Mapping[str, Any]) -> None:
    """ArgumentError for a nested tensor: sequences of many lengths are packed one behind the other."""
    for name, array in arrays.items():
        if isinstance(array, Tensor) and array.is_nested:
            how = "give `.values()` of a jagged one to a `varlen` variant, and `.offsets()` as cu_seqlens_q and cu_seqlens_kv"
            raise ArgumentError(f"{name}: a dense tensor is wanted, got a nested one: {how}")


def take_starts(name: str, given: Any, device: torch.device) -> Tensor | None:
    """Starts of packed sequences as a tensor."""
    if given is None or isinstance(given, Tensor):
        return given
    if not isinstance(given, list | tuple):
        raise ArgumentError(f"{name}: an int32 tensor or a list of ints is wanted, got {type(given).__name__}")
    return torch.tensor(given, dtype=torch.int32, device=device)


def run_forward(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
    """`attnspec::forward` on tensors with memory."""
    *place, variant, deterministic = rest
    attention = attention_of(variant)
    call = attention.checks.with_tensors(q, k, v, tuple(tensors), Placing(*place), deterministic)
    results = attention.kernel_for(q.device).program.forward(call)
    return results.out, results.lse, list(results.saved)


def run_backward(
    dout: Tensor, dlse: Tensor, out: Tensor, lse: Tensor, kept: Sequence[Tensor], *inputs: Any
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """`attnspec::backward` on tensors with memory."""
    q, k, v, tensors, *place, variant, deterministic = inputs
    attention = attention_of(variant)
    call = attention.checks.with_tensors(q, k, v, tuple(tensors), Placing(*place), deterministic)
    results = Forward(out, lse, tuple(kept))
    found = attention.kernel_for(q.device).program.backward(call, results, dout.contiguous(), dlse.float().contiguous())
    return found.dq, found.dk, found.dv, [one for one in found.tensors if one is not None]


def look_forward(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
    """`attnspec::forward` on tensors without memory: shapes, and the checks that need no more."""
    attention = attention_of(rest[-2])
    spec = attention.spec
    check_kinds(spec, q, k, v)
    check_heads(spec, q.shape[-2], k.shape[-2])
    *rows, heads, _ = q.shape
    shape, lse_shape = (*rows, heads, spec.head_dim_v), (heads, *rows) if spec.is_varlen else (rows[0], heads, rows[1])
    out, lse = q.new_empty(shape), q.new_empty(lse_shape, dtype=torch.float32)
    kept = [torch.empty_like(out, dtype=torch.float32), torch.empty_like(lse)] if attention.is_reference_on(q.device) else []
    return out, lse, kept


def look_backward(
    dout: Tensor, dlse: Tensor, out: Tensor, lse: Tensor, kept: Sequence[Tensor], *inputs: Any
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """`attnspec::backward` on tensors without memory."""
    q, k, v, tensors, *_, variant, _ = inputs
    declared = attention_of(variant).spec.tensors
    learned = [array.new_empty(array.shape) for array, tensor in zip(tensors, declared, strict=True) if tensor.is_learned]
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape), learned


for _name, _run, _look in (("forward", run_forward, look_forward), ("backward", run_backward, look_backward)):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    library.register_fake(f"attnspec::{_name}", _look, lib=_library)
    _operator = getattr(torch.ops.attnspec, _name).default
    library.register_vmap(_operator, loop_over(_operator), lib=_library)
library.register_autograd("attnspec::forward", differentiate, setup_context=keep, lib=_library)
library.register_autograd("attnspec::backward", refuse_second, lib=_library)
