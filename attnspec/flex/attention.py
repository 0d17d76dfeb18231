"""`flex_attention` with FlexAttention's arguments and layout, computed by the variant that its functions mean."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

from attnspec.api import Attention, build
from attnspec.errors import ArgumentError
from attnspec.flex.from_flex import MaskMod, ScoreMod, from_flex
from attnspec.language.spec import Spec

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask

LAYOUT = "(batch, heads, length, head_dim), as FlexAttention has it"


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: "BlockMask | MaskMod | None" = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: Literal[False] = ...,
    kernel_options: Mapping[str, Any] | None = ...,
    *,
    return_aux: None = ...,
    target: str | None = ...,
    on: str | None = ...,
) -> Tensor: ...


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: "BlockMask | MaskMod | None" = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    return_lse: Literal[True],
    kernel_options: Mapping[str, Any] | None = ...,
    return_aux: None = ...,
    target: str | None = ...,
    on: str | None = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = ...,
    block_mask: "BlockMask | MaskMod | None" = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: bool = ...,
    kernel_options: Mapping[str, Any] | None = ...,
    *,
    return_aux: "AuxRequest",
    target: str | None = ...,
    on: str | None = ...,
) -> tuple[Tensor, "AuxOutput"]: ...


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: "BlockMask | MaskMod | None" = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Mapping[str, Any] | None = None,
    *,
    return_aux: "AuxRequest | None" = None,
    target: str | None = None,
    on: str | None = None,
) -> Any:
    """What torch's `flex_attention` computes, by an attnspec kernel; tensors are (batch, heads, length, head_dim).

    block_mask: a BlockMask, of which only the mask_mod is taken (tiles to skip are derived from it), or a mask_mod itself.
    kernel_options: not looked at: they tune torch's kernels. return_aux: lse alone; maxima of scores are not computed.
    The functions are traced at every call; `from_flex` and `build` do it once. target, on: as for `attnspec.build`.
    """
    if return_aux is not None and return_aux.max_scores:
        raise ArgumentError("return_aux: max_scores: no kernel stores the maxima of its rows; ask for lse alone")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor) or tensor.dim() != 4:
            found = f"shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ArgumentError(f"{name}: {found}, wanted {LAYOUT}")
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads != kv_heads and not enable_gqa:
        raise ArgumentError(f"query: {heads} heads over {kv_heads} of key and value; pass enable_gqa=True for grouped heads")
    if query.dtype not in (torch.bfloat16, torch.float16):
        raise ArgumentError(f"query: dtype {query.dtype}, wanted bfloat16 or float16: scores and sums are f32 inside")
    variant = from_flex(
        score_mod,
        mask_mod_of(block_mask),
        head_dim=(query.shape[-1], value.shape[-1]),
        dtype=query.dtype,
        scale=scale,
        batch=query.shape[0],
        heads=heads,
        kv_heads=kv_heads,
        len_q=query.shape[2],
        len_kv=key.shape[2],
    )
    q, k, v = (_stretched(tensor, query.shape[0]).transpose(1, 2) for tensor in (query, key, value))
    out, lse = _built(variant.spec, target, on)(q, k, v, return_lse=True, **variant.tensors)
    out = out.transpose(1, 2)
    if return_aux is not None:
        from torch.nn.attention.flex_attention import AuxOutput

        return out, AuxOutput(lse=lse if return_aux.lse else None)
    return (out, lse) if return_lse else out


def mask_mod_of(block_mask: "BlockMask | MaskMod | None") -> MaskMod | None:
    """The function of a BlockMask; one whose blocks say more than its function is refused."""
    if block_mask is None or not hasattr(block_mask, "kv_num_blocks"):
        return block_mask  # type: ignore[return-value]
    from torch.nn.attention.flex_attention import noop_mask

    found: Any = block_mask.mask_mod  # type: ignore[union-attr]
    if getattr(found, "fn", found) is noop_mask and not bool(block_mask.to_dense().all()):  # type: ignore[union-attr]
        help = "write the rule as a mask_mod, such as block_map[b, h, q_idx // 128, kv_idx // 128]"
        raise ArgumentError(f"block_mask: its blocks hide keys, but its mask_mod hides none: {help}")
    return found


@lru_cache(maxsize=64)
def _built(spec: Spec, target: str | None, on: str | None) -> Attention:
    """One built variant for equal specs."""
    return build(spec, target=target, on=on)


def _stretched(tensor: Tensor, batch: int) -> Tensor:
    """A batch of one for every entry of the queries' batch."""
    return tensor.expand(batch, -1, -1, -1) if len(tensor) == 1 and batch > 1 else tensor
