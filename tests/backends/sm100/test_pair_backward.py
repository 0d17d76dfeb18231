"""The backward in which two CTAs share a work tile, run in the emulator against the float64 oracle."""

import re
from functools import cache
from typing import Any

import pytest
import torch
from attnspec.lowering.schedule.refuse_pair import backward_reason
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call, Gradients
from attnspec.runtime.compare import compare
from attnspec.runtime.declared import check_declared
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape, starts
from attnspec.runtime.emulated_backward import EmulatedBackward
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from tests.small_constants import SMALL, VARIANTS, path_of

PLAIN = "attention plain\nhead_dim 128\n"
CAUSAL = "attention causal\nhead_dim 128\nmask = kv <= qpos\n"
PACKED = "attention causal\nhead_dim 64\nmask = kv <= qpos\nvarlen\n"
SLOPES = "attention slopes\nhead_dim 64\nlearned slopes: f32[heads]\nscore = score + slopes[h] * (kv - qpos)\nmask = causal\n"
FACTOR = "learned t: f32[heads]\nscore = score * t[h]\n"
SLOPED = "learned t: f32[batch, len_kv]\ninput u: f32[len_q]\nscore = score * u[q] + t[b, kv] * tanh(score)\n"
MANY_HEADS = 8  # of a group
SPILLED = {"prefix_lm": 64}  # bytes, of the load role: its walk has two ranges; with more registers for it softcap spills
SEEDS = 20
CTAS = 4  # of the pretended GPU: two pairs, so that one has several work tiles


@cache
def paired(text: str, **constants: Any) -> attnspec.Attention:
    return attnspec.build(text, on="emulator", ctas=2, **constants)


def backward_of(attention: attnspec.Attention) -> EmulatedBackward:
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    return program.made_backward


def drawn(attention: attnspec.Attention, shape: Shape) -> Inputs:
    return draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1)


def assert_right(attention: attnspec.Attention, inputs: Inputs) -> None:
    rows = compare(attention, inputs)
    assert all(row.is_right for row in rows), [(row.name, row.error, row.worst) for row in rows]


def assert_same_for_every_timing(attention: attnspec.Attention, inputs: Inputs, seeds: int) -> None:
    """dK and dV to the bit; dQ is added up in any order by the pairs, in f32, and then rounded."""
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing(**inputs.keywords))
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, False)
    results = program.forward(call)

    def gradients(seed: int | None) -> Gradients:
        return program.made_backward.run(call, results, inputs.dout, inputs.dlse, CTAS, seed)[0]

    first = gradients(None)
    for seed in range(seeds):
        found = gradients(seed)
        assert torch.equal(found.dk, first.dk)
        assert torch.equal(found.dv, first.dv)
        assert float((found.dq.float() - first.dq.float()).abs().max()) <= 2.0**-7 * float(first.dq.abs().max())


def test_pair_of_one_tile_agrees_with_the_oracle() -> None:
    attention = paired(PLAIN)
    assert_right(attention, drawn(attention, Shape(1, 1, 1, 70, 200)))
    assert backward_of(attention).binary.frame_bytes == 0


@pytest.mark.slow
def test_pair_agrees_with_the_oracle_and_is_the_same_for_every_timing() -> None:
    """Five work tiles for two pairs, three steps each; of the last tile one CTA has a key, and the other none."""
    attention = paired(PLAIN)
    inputs = drawn(attention, Shape(1, 1, 1, 300, 1025))
    assert_right(attention, inputs)
    assert_same_for_every_timing(attention, inputs, SEEDS)


@pytest.mark.slow
def test_causal_pair_of_grouped_heads_agrees_with_the_oracle() -> None:
    attention = paired(CAUSAL)
    for shape in (Shape(1, 2, 1, 300, 417), Shape(1, 1, 1, 700, 400), Shape(2, 2, 2, 4, 2)):
        inputs = drawn(attention, shape)
        assert_right(attention, inputs)
        assert_same_for_every_timing(attention, inputs, 2)


@pytest.mark.slow
def test_every_tensor_instruction_is_of_both_ctas_and_nothing_spills() -> None:
    made = backward_of(paired(PLAIN))
    kernel = max(re.split(r"(?=\.entry)", made.binary.ptx), key=lambda text: text.count("tcgen05.mma"))
    words = set(re.findall(r"tcgen05\.(\w+)\.cta_group::(\d)", kernel))
    assert words == {(name, "2") for name in ("mma", "alloc", "dealloc", "relinquish_alloc_permit", "commit")}
    assert made.binary.frame_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [([63, 65, 127, 129, 600], [63, 65, 127, 129, 70]), ([0, 300, 0, 5], [7, 417, 0, 0])])
def test_packed_sequences_are_right(lengths: tuple[list[int], list[int]]) -> None:
    attention, (rows, keys) = paired(PACKED), lengths
    found = draw_inputs(attention.spec, Shape(1, 2, 1, sum(rows), sum(keys)))
    ends = {"cu_seqlens_q": starts(rows), "cu_seqlens_kv": starts(keys)}
    inputs = Inputs(found.q, found.k, found.v, {}, found.dout, found.dlse, ends)
    assert_right(attention, inputs)
    assert_same_for_every_timing(attention, inputs, 2)


@pytest.mark.slow
def test_part_of_a_longer_sequence_has_the_references_gradients() -> None:
    lengths = ((0, 150), (1, 200), (2, 200))
    whole = [torch.randn(1, length, 2, 128, generator=torch.Generator().manual_seed(at)).bfloat16() for at, length in lengths]

    def gradients(**target: Any) -> tuple[torch.Tensor, ...]:
        leaves = [tensor.clone().requires_grad_() for tensor in whole]
        out = attnspec.build(CAUSAL, **target)(*leaves, q_offset=70, kv_offset=30, len_q=400, len_kv=380)
        return torch.autograd.grad(out.float().square().sum(), leaves)

    for found, wanted in zip(gradients(on="emulator", ctas=2), gradients(target="reference"), strict=True):
        assert float((found.float() - wanted.float()).abs().max()) < 2**-6 * float(wanted.abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["8", "16", "40", "72", "80", "96", "112", "128, 64", "64, 128"])
def test_head_dimensions_are_right(dims: str) -> None:
    attention = paired(f"attention causal\nhead_dim {dims}\nmask = kv <= qpos\n")
    assert_right(attention, drawn(attention, Shape(1, 2, 1, 300, 417)))


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "96", "112", "128", "128, 64"])
@pytest.mark.parametrize("more", [FACTOR, SLOPED], ids=["a factor", "a slope"])
def test_scores_that_are_needed_again_with_dp_are_right(more: str, dims: str) -> None:
    """Where dQ has no columns but theirs a pair would wait for itself: one CTA runs them."""
    attention = paired(f"attention again\nhead_dim {dims}\n{more}")
    assert_right(attention, drawn(attention, Shape(1, 2, 1, 300, 417)))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_right_and_the_same_for_every_timing(variant: str) -> None:
    attention = paired(str(path_of(variant)), **SMALL.get(variant, {}))
    if backward_reason(attention.analysed, stages.limits_of("sm100")) is not None:
        assert stages.draw(attention.analysed, "backward", ctas=2).ctas == 1
        return
    assert backward_of(attention).binary.frame_bytes == SPILLED.get(variant, 0)
    many_heads = (attention.spec.group or 1) > MANY_HEADS
    inputs = drawn(attention, Shape(1, 1, 1, 20, 300) if many_heads else Shape(1, 2, 1, 200, 300))
    assert_right(attention, inputs)
    assert_same_for_every_timing(attention, inputs, 3)


@pytest.mark.slow
def test_value_gradient_of_keys_that_no_query_sees_is_zero() -> None:
    attention = paired("attention early\nhead_dim 64\nmask = kv < 140\n")
    q, k, v = (torch.randn(1, 300, 1, 64, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3))
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    _, dk, dv = torch.autograd.grad(attention(*leaves).float().square().sum(), leaves)
    assert dv[0, :140].any(dim=-1).all()
    assert not dk[0, 140:].any()
    assert not dv[0, 140:].any()


@pytest.mark.slow
def test_what_lies_beyond_the_sequence_changes_no_bit_of_a_gradient() -> None:
    """In the second CTA of a pair too, whose keys may be beyond the last, and whose rows of a query tile may be."""
    attention = paired(PLAIN)
    whole = [torch.randn(1, 300, 1, 128, generator=torch.Generator().manual_seed(at)).bfloat16() for at in range(3)]

    def gradients() -> tuple[torch.Tensor, ...]:
        leaves = [tensor[:, :50].detach().requires_grad_() for tensor in whole]
        return torch.autograd.grad(attention(*leaves).float().sum(), leaves)

    first = gradients()
    for tensor in whole:
        tensor[:, 50:] = float("nan")
    assert all(map(torch.equal, gradients(), first))


@pytest.mark.slow
@pytest.mark.parametrize("text", [PLAIN, CAUSAL, SLOPES], ids=["plain", "causal", "slopes"])
def test_deterministic_bits_do_not_depend_on_timing_or_the_number_of_pairs(text: str) -> None:
    attention = paired(text)
    inputs = drawn(attention, Shape(1, 2, 2, 130, 520))
    layout = check_call(attention.spec, inputs.q, inputs.k, inputs.v, Placing())
    declared = check_declared(attention.spec, inputs.tensors, layout, inputs.q.device)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    assert program.made_deterministic.binary.frame_bytes == 0
    call = Call(inputs.q, inputs.k, inputs.v, declared, layout, True)
    results, found = program.forward(call), []
    for ctas, seed in ((2, None), (1, 0), (3, 1), (4, 2)):  # multiprocessors: a pair at least
        made = program.made_deterministic.run(call, results, inputs.dout, inputs.dlse, ctas, seed)[0]
        found.append((made.dq, made.dk, made.dv, *(one for one in made.tensors if one is not None)))
    assert all(torch.equal(one, other) for again in found[1:] for one, other in zip(found[0], again, strict=True))


@pytest.mark.slow
def test_long_call_is_done_by_pairs_unasked() -> None:
    attention = attnspec.build(CAUSAL, on="emulator")
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    for keys in (700, 300):
        assert_right(attention, drawn(attention, Shape(1, 1, 1, 300, keys)))
    made = program.backwards.made
    assert {form.is_short: one.schedule.dataflow.ctas for form, one in made.items()} == {False: 2, True: 1}


def test_wide_heads_are_of_one_cta_in_the_backward_alone() -> None:
    analysed = stages.analyse(stages.read("attention wide\nhead_dim 192, 128\n"))
    assert [stages.draw(analysed, direction, ctas=2).ctas for direction in ("forward", "backward")] == [2, 1]
