"""The inputs of a random call: drawn, cut to a part or packed, and laid out in memory."""

import random
from dataclasses import replace
from typing import Any

import torch
from attnspec.runtime.draw_inputs import Inputs, draw_inputs, starts

from attnspec.language.spec import Spec
from tests.backends.random_calls import RandomCall


def inputs_of(call: RandomCall, spec: Spec) -> Inputs:
    """The inputs of a call."""
    chance = random.Random(call.seed)
    place, layout = call.choices["place"], call.choices["layout"]
    drawn = packed(call, spec, chance) if spec.is_varlen else part(draw_inputs(spec, call.shape, call.seed), place, chance)
    drawn = replace(drawn, tensors={name: declared(array, layout) for name, array in drawn.tensors.items()})
    if layout == "shared keys" and not spec.is_varlen and len(drawn.k) > 1:
        k, v = (array[:1].expand(len(array), -1, -1, -1) for array in (drawn.k, drawn.v))
        return replace(drawn, k=k, v=v)
    return replace(drawn, **{name: laid_out(getattr(drawn, name), layout) for name in ("q", "k", "v", "dout")})


def packed(call: RandomCall, spec: Spec, chance: random.Random) -> Inputs:
    """Sequences of any lengths that together are as long as the call's, some of them empty."""
    lengths_q, lengths_kv = ([], [])
    empty = [chance.randint(0, call.shape.batch) for _ in range(2)] if call.choices["place"] == "packed with empty" else []
    for lengths, total in ((lengths_q, call.shape.len_q), (lengths_kv, call.shape.len_kv)):
        cuts = sorted(chance.randint(0, total) for _ in range(call.shape.batch))
        lengths += [end - first for first, end in zip([0, *cuts], [*cuts, total], strict=True)]
        for place in empty:  # the same ones in both, or in one
            lengths.insert(place if chance.random() < 0.7 else len(lengths), 0)
    drawn = draw_inputs(spec, replace(call.shape, batch=1), call.seed)
    sizes = replace(call.shape, batch=len(lengths_q), len_kv=min(lengths_kv))
    tensors = draw_inputs(spec, sizes, call.seed).tensors
    return replace(drawn, tensors=tensors, keywords={"cu_seqlens_q": starts(lengths_q), "cu_seqlens_kv": starts(lengths_kv)})


def part(drawn: Inputs, place: str, chance: random.Random) -> Inputs:
    """Some of the rows and keys of a call whose tensors are of the whole."""
    keywords: dict[str, Any] = {}
    for axis, names, places in (("q", ("q", "dout"), ("both", "longer", "rows")), ("kv", ("k", "v"), ("both", "longer", "keys"))):
        if place not in places:
            continue
        length = getattr(drawn, names[0]).shape[1]
        first = 0 if place == "longer" else chance.choice((0, min(length, 128), chance.randint(0, length)))
        last = chance.randint(first, length) if place == "longer" or chance.random() < 0.5 else length
        drawn = replace(drawn, **{name: getattr(drawn, name)[:, first:last] for name in names})
        drawn = replace(drawn, dlse=drawn.dlse[..., first:last]) if axis == "q" else drawn
        keywords |= {f"{axis}_offset": first, f"len_{axis}": length}
    return replace(drawn, keywords=keywords)


def laid_out(array: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values elsewhere in memory; what lies between them is NaN."""
    if layout == "by head":
        return array.transpose(-3, -2).contiguous().transpose(-3, -2)
    if layout == "turned":  # the batch, or the sequence, innermost but one
        return array.movedim(0, -2).contiguous().movedim(-2, 0)
    if layout == "among others":
        *batch, length, heads, width = array.shape
        room = torch.full((*batch, length + 3, heads + 2, width + 8), float("nan"), dtype=array.dtype)
        room[..., 3:, 1 : heads + 1, :width] = array
        return room[..., 3:, 1 : heads + 1, :width]
    return array


def declared(array: torch.Tensor, layout: str) -> torch.Tensor:
    """The same for a variant's own tensors, whose last axis alone has to have stride 1."""
    if array.dim() == 0 or layout in ("plain", "by head", "shared keys"):
        return array
    if layout == "turned":
        return array if array.dim() < 2 else array.movedim(0, -2).contiguous().movedim(-2, 0)
    between = float("nan") if array.is_floating_point() else True if array.dtype == torch.bool else torch.iinfo(array.dtype).max
    room = torch.full([size + 3 for size in array.shape], between, dtype=array.dtype)
    inside = tuple(slice(1, 1 + size) for size in array.shape)
    room[inside] = array
    return room[inside]
