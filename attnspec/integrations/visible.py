"""What a model's mask function says of a call: which keys are visible, and where queries and keys lie in the sequence."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

Rule = Callable[..., Any]  # (b, h, q_idx, kv_idx) -> visible, in positions of the whole sequence


@dataclass(frozen=True)
class Visible:
    """Stands where a mask tensor would, and is handed through the model to its attention.

    rule: None where every key is visible. padding: bool (batch, length), true = a token; None where all are tokens.
    bias: what a mask tensor of four axes adds to the score, in positions of the part at hand.
    length: of the whole sequence. q_offset, kv_offset: positions of the first query and key at hand.
    """

    rule: Rule | None
    length: int
    q_offset: int = 0
    kv_offset: int = 0
    padding: Tensor | None = None
    bias: Tensor | None = None
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)  # what layers of this call share

    @property
    def ndim(self) -> int:
        """As of a mask of all pairs: models that are handed one made before, as with a static cache, leave it as it is."""
        return 4

    @property
    def key(self) -> Hashable:
        """Equal for calls with one rule; None where the rule rests on tensors."""
        if self.bias is not None:
            return None
        return "all" if self.rule is None else key_of(self.rule)


def key_of(value: Any) -> Hashable:
    """A function by its code and by what it captured, a number by itself; None for anything that holds data."""
    if isinstance(value, bool | int | float | str | type(None) | torch.dtype):
        return (type(value), value)
    if isinstance(value, tuple):
        inside = tuple(map(key_of, value))
        return None if None in inside else inside
    if not isinstance(value, FunctionType) or value.__dict__:
        return None
    cells = tuple(key_of(cell.cell_contents) for cell in value.__closure__ or ())
    given = key_of(value.__defaults__ or ())
    return None if None in cells or given is None else (value.__module__, value.__code__, cells, given)


def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Keys up to the query's own position."""
    return kv_idx <= q_idx


def mask_for(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Rule = causal,
    attention_mask: "Tensor | Visible | None" = None,
    **others: Any,
) -> Visible:
    """The mask function that a model calls once a forward pass: nothing is computed but whether there is padding.

    attention_mask: (batch, tokens so far), true or 1 = a token; or what this gave for the same pass before, which is kept.
    others: what other implementations want.
    """
    if isinstance(attention_mask, Visible):
        return attention_mask
    q_offset, kv_offset = int(q_offset), int(kv_offset)
    length = max(q_offset + q_length, kv_offset + kv_length)
    padding = None
    if attention_mask is not None and not bool(attention_mask.all()):
        padding = _to_length(attention_mask.bool(), length)
    return Visible(mask_function, length, q_offset, kv_offset, padding)


def whole(mask: Tensor | None, is_causal: bool, q_length: int, kv_length: int) -> Visible:
    """For a call without a mask of ours: none at all, or a tensor of four axes that the user made."""
    if mask is None:
        # As everywhere in models: several queries are the last ones of the keys, and a single one sees all keys.
        return Visible(causal if is_causal else None, max(q_length, kv_length), max(0, kv_length - q_length))
    mask = mask[..., :kv_length]
    if mask.dtype == torch.bool:
        return Visible(_of_table(mask), max(q_length, kv_length), bias=mask)
    return Visible(None, max(q_length, kv_length), bias=mask)


def _of_table(mask: Tensor) -> Rule:
    """Visible where a bool tensor of four axes says so; axes of one element hold for all."""

    def rule(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return mask[b if len(mask) > 1 else 0, h if mask.shape[1] > 1 else 0, q_idx if mask.shape[2] > 1 else 0, kv_idx]

    return rule


def _to_length(mask: Tensor, length: int) -> Tensor:
    """Cut, or filled with tokens that are none, to a length."""
    missing = length - mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, missing)) if missing > 0 else mask[:, :length].contiguous()
