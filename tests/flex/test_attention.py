"""`attnspec.flex_attention` in the place of torch's."""

import inspect

import pytest
import torch
import torch.nn.attention.flex_attention as flex

import attnspec
from tests.flex.compare import BATCH, HEADS, blocks_of, by_torch, check_equal, draw
from tests.flex.masks import causal


def jagged(tensor: torch.Tensor) -> torch.Tensor:
    """The entries of a batch as sequences of their own."""
    return torch.nested.nested_tensor(list(tensor.transpose(1, 2)), layout=torch.jagged).transpose(1, 2)


def rising(score, b, h, q_idx, kv_idx):
    return score + 0.1 * (kv_idx - q_idx)


def test_it_computes_what_torch_s_does_in_the_same_layout() -> None:
    drawn = draw(kv_heads=2)
    q, k, v = (tensor.detach().requires_grad_() for tensor in (drawn.q, drawn.k, drawn.v))
    blocks = blocks_of(drawn, causal)
    out, lse = attnspec.flex_attention(q, k, v, rising, blocks, scale=0.2, enable_gqa=True, return_lse=True)
    found = [lse.detach(), out.detach(), *torch.autograd.grad(out, (q, k, v), drawn.dout)]
    check_equal(found, by_torch(drawn, rising, causal, (), enable_gqa=True, scale=0.2))


def test_without_lse_it_gives_the_output_alone() -> None:
    drawn = draw()
    out = attnspec.flex_attention(drawn.q, drawn.k, drawn.v, block_mask=causal)
    assert out.shape == drawn.q.shape
    assert torch.equal(out, attnspec.flex_attention(drawn.q, drawn.k, drawn.v, block_mask=blocks_of(drawn, causal)))


def test_one_batch_of_keys_serves_every_batch_of_queries() -> None:
    drawn = draw()
    one = attnspec.flex_attention(drawn.q, drawn.k[:1], drawn.v[:1], rising)
    both = attnspec.flex_attention(drawn.q, drawn.k[:1].expand(BATCH, -1, -1, -1), drawn.v[:1].expand(BATCH, -1, -1, -1), rising)
    assert torch.equal(one, both)


def test_a_block_mask_that_says_more_than_its_function_is_refused() -> None:
    ones = torch.ones(1, 1, 2, dtype=torch.int32)
    blocks = flex.BlockMask.from_kv_blocks(ones, torch.zeros(1, 1, 2, 2, dtype=torch.int32), BLOCK_SIZE=12, seq_lengths=(24, 24))
    drawn = draw()
    with pytest.raises(attnspec.ArgumentError, match="its blocks hide keys, but its mask_mod hides none"):
        attnspec.flex_attention(drawn.q, drawn.k, drawn.v, block_mask=blocks)


def test_it_takes_what_torch_s_takes_in_the_same_order() -> None:
    theirs, ours = (inspect.signature(function).parameters for function in (flex.flex_attention, attnspec.flex_attention))
    assert theirs.keys() <= ours.keys()
    for name, parameter in theirs.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default)
    by_place = [name for name, parameter in ours.items() if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert by_place == [name for name, parameter in theirs.items() if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]


@pytest.mark.skipif(not hasattr(flex, "AuxRequest"), reason="this torch has no AuxRequest yet")
def test_options_for_torch_s_kernels_change_nothing_and_lse_comes_in_either_way() -> None:
    drawn = draw()
    plain, lse = attnspec.flex_attention(drawn.q, drawn.k, drawn.v, rising, None, None, False, True)
    out, more = attnspec.flex_attention(
        drawn.q, drawn.k, drawn.v, rising, kernel_options={"BLOCK_M": 64}, return_aux=flex.AuxRequest(lse=True)
    )
    assert torch.equal(out, plain)
    assert isinstance(more, flex.AuxOutput) and more.lse is not None and torch.equal(more.lse, lse) and more.max_scores is None
    with pytest.raises(attnspec.ArgumentError, match="return_aux: max_scores"):
        attnspec.flex_attention(drawn.q, drawn.k, drawn.v, return_aux=flex.AuxRequest(max_scores=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q.float(), k.float(), v.float()), "query: dtype torch.float32, wanted bfloat16 or float16"),
        (lambda q, k, v: (q, k[:, :2], v[:, :2]), f"query: {HEADS} heads over 2 of key and value; pass enable_gqa=True"),
        (lambda q, k, v: (q[0], k, v), r"query: shape \(4, 24, 16\), wanted \(batch, heads, length, head_dim\)"),
        (lambda q, k, v: (q, k, None), "value: NoneType, wanted"),
        (lambda q, k, v: (jagged(q), jagged(k), jagged(v)), "q: a dense tensor is wanted, got a nested one"),
    ],
)
def test_wrong_arguments_are_errors_that_name_them(change, message: str) -> None:
    drawn = draw()
    with pytest.raises(attnspec.ArgumentError, match=message):
        attnspec.flex_attention(*change(drawn.q, drawn.k, drawn.v))
