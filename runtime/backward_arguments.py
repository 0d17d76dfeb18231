"""What a GPU kernel's host function takes in the backward, and the gradients that it leaves."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.kernel_arguments import as_argument, places
from torch import Tensor


class Prepared(NamedTuple):
    """Room for the results, and all arguments in order but for the multiprocessors and the stream.

    sums: f32, of the learned tensors.
    """

    dq: Tensor
    dk: Tensor
    dv: Tensor
    sums: list[Tensor]
    arguments: tuple[Any, ...]


def prepare(
    call: Call, results: Forward, dout: Tensor, dlse: Tensor, learned: tuple[bool, ...], scratch: Mapping[str, int]
) -> Prepared:
    """Room on the call's device. learned: by declaration; scratch: of the manifest. Packed tensors are a batch of one."""
    device = call.q.device
    room = torch.empty if writes_all(call, results) else torch.zeros
    dq, dk, dv = (room(given.shape, dtype=given.dtype, device=device) for given in (call.q, call.k, call.v))
    declared = tuple(map(as_argument, call.tensors))
    sums = [
        torch.zeros(given.shape, dtype=torch.float32, device=device)
        for given, is_learned in zip(declared, learned, strict=True)
        if is_learned
    ]
    words = scratch["exact_words"]
    exact = [torch.zeros(one.numel() * words, dtype=torch.int64, device=device) for one in sums] if words else []
    arrays = (call.q, call.k, call.v, results.out, dout, results.lse.contiguous(), dlse, dq, dk, dv)
    if call.layout.is_packed:
        arrays = tuple(array.unsqueeze(0) for array in arrays)
    arguments = (*arrays, *scratch_of(call, scratch), *declared, *sums, *exact, *places(call))
    return Prepared(dq, dk, dv, sums, arguments)


def writes_all(call: Call, results: Forward) -> bool:
    """Whether the kernels write every element of dQ, dK and dV. Without queries none is launched; starts of packed sequences
    that lie on a GPU are not read by the host, and may leave tokens at the end to nobody.
    """
    return bool(results.out.numel()) and not call.layout.is_packed


def scratch_of(call: Call, scratch: Mapping[str, int]) -> tuple[Tensor, ...]:
    """Memory that the passes hand to one another: numbers of each row, the sum of dQ, and where adding has an order, whose
    turn it is; the first pass fills it.
    """
    *_, length, heads, _ = call.q.shape
    tile, batch, device = scratch["tile_q"], call.layout.batch, call.q.device
    blocks = length // tile + batch if call.layout.is_packed else -(-length // tile) * batch
    rows = heads * blocks * tile
    planes = torch.empty(rows * scratch["planes"], dtype=torch.float32, device=device)
    width = torch.empty(rows * scratch["width"], dtype=torch.float32, device=device)
    if not scratch["turns"]:
        return planes, width
    return planes, width, torch.empty(heads * blocks * scratch["turns"], dtype=torch.int32, device=device)


def gradients_of(call: Call, learned: tuple[bool, ...], prepared: Prepared) -> Gradients:
    """What was left there, each in the dtype of what it is the gradient of.

    A tensor without elements has a sum of some: `as_argument`.
    """
    found = iter(prepared.sums)
    tensors = tuple(
        next(found).flatten()[: given.numel()].reshape(given.shape).to(given.dtype) if is_learned else None
        for given, is_learned in zip(call.tensors, learned, strict=True)
    )
    return Gradients(prepared.dq, prepared.dk, prepared.dv, tensors)
