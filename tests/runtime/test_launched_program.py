"""Kernels as a GPU is given them, all but the last step: host function, arguments, scratch and results are the real ones."""

from dataclasses import replace

import pytest
import torch
from attnspec.runtime import launched_program
from attnspec.runtime.arguments import Placing
from attnspec.runtime.checked import WHOLE
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.kernel import Kernel
from attnspec.runtime.launched_program import LaunchedProgram

import attnspec
from attnspec import stages
from tests.runtime.standin import function_in_emulator

TEXT = "attention launched\nhead_dim 64\nlearned w: f32[heads]\nscore = score * w[h]\nmask = causal\nsink = w[h]\n"
PACKED = "attention packed\nhead_dim 64\nvarlen\nmask = causal\n"


@pytest.fixture(autouse=True)
def four_processors(monkeypatch):
    monkeypatch.setattr(launched_program, "processors", lambda device: 4)


def program_of(attention, target: str, load=function_in_emulator) -> LaunchedProgram:
    """The program that a GPU would run."""
    made = stages.make_kernel(attention, target).program
    assert isinstance(made, LaunchedProgram)
    return replace(made, load=load)


def results(attention, kernel, inputs, *, backward: bool):
    """out and lse, and with the backward all gradients."""
    leaves = [array.clone().requires_grad_(backward) for array in (inputs.q, inputs.k, inputs.v)]
    tensors = {name: array.clone().requires_grad_(backward) for name, array in inputs.tensors.items()}
    call = attention.checks.call(*leaves, tensors, Placing(**inputs.keywords) if inputs.keywords else WHOLE, False)
    found = kernel(call)
    return [*found, *(torch.autograd.grad(found, [*leaves, *tensors.values()], (inputs.dout, inputs.dlse)) if backward else ())]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.float(), other.float(), atol=0.02, rtol=0.02)  # O, dO and P are of 8 bits


@pytest.mark.parametrize(("target", "text"), [("sm90", "attention dense\nhead_dim 64\nmask = causal\n"), ("sm100", PACKED)])
def test_the_forward_as_it_is_launched_gives_what_the_reference_gives(target, text):
    attention = attnspec.build(text)
    inputs = draw_inputs(attention.spec, Shape(2, 2, 1, 130, 140))
    found = results(attention, Kernel(program_of(attention, target)), inputs, backward=False)
    assert_close(found, results(attention, attention.kernel_for(inputs.q.device), inputs, backward=False))


@pytest.mark.slow
def test_the_backward_as_it_is_launched_gives_what_the_reference_gives():
    attention = attnspec.build(TEXT)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 130, 140))
    found = results(attention, Kernel(program_of(attention, "sm100")), inputs, backward=True)
    assert_close(found, results(attention, attention.kernel_for(inputs.q.device), inputs, backward=True))


def test_multiprocessors_that_are_spared_are_left_to_others_in_calls_of_shapes_seen_before_too():
    launches = []
    attention = attnspec.build("attention dense\nhead_dim 64\n")
    whole = program_of(attention, "sm90", lambda emitted: lambda *arguments: launches.append(arguments[-1]))
    q = torch.zeros(1, 5, 2, 64, dtype=torch.bfloat16)
    call = attention.checks.call(q, q, q, {}, WHOLE, False)
    for program in (whole, whole.sparing(3), whole, whole.sparing(9)):
        program.forward(call)
    assert launches == [4, 1, 4, 1]


def test_a_kernel_is_loaded_once_for_all_sizes_and_strides():
    loads, launches = [], []

    def load(emitted):
        loads.append(emitted.modules[0].name)
        return lambda *arguments: launches.append(arguments)

    attention = attnspec.build("attention dense\nhead_dim 64\n")
    program = program_of(attention, "sm100", load)
    for length in (1, 5, 200):
        wide = torch.zeros(1, length, 6, 64, dtype=torch.bfloat16)
        results(attention, Kernel(program), draw_inputs(attention.spec, Shape(2, 2, 1, length, length)), backward=True)
        Kernel(program)(attention.checks.call(wide[:, :, :2], wide[:, :, 2:4], wide[:, :, 4:], {}, WHOLE, False))
    assert loads == ["forward", "backward"]
    assert len(launches) == 9


def test_a_call_of_few_keys_has_a_backward_of_one_cta_where_others_have_pairs():
    """Up to 640 keys pairs are no faster (`short_calls`). Each is loaded when it is first wanted."""
    pairs, launched = [], []

    def load(emitted):
        if emitted.modules[0].name == "forward":
            return lambda *arguments: None
        pairs.append("cluster=[pair.CTAS, 1, 1]" in emitted.modules[0].text)
        return lambda *arguments, is_pair=pairs[-1]: launched.append(is_pair)

    text = "attention dense\nhead_dim 128\n"
    unasked, one, two = attnspec.build(text), attnspec.build(text, ctas=1), attnspec.build(text, ctas=2)
    for attention, wanted in ((unasked, [True, False, False, True]), (one, [False] * 4), (two, [True] * 4)):
        program = program_of(attention, "sm100", load)
        pairs.clear()
        launched.clear()
        for keys in (641, 640, 0, 900):
            results(attention, Kernel(program), draw_inputs(attention.spec, Shape(1, 1, 1, 5, keys)), backward=True)
        assert (launched, pairs) == (wanted, list(dict.fromkeys(wanted)))


def test_an_empty_call_launches_nothing():
    attention = attnspec.build("attention dense\nhead_dim 64\n")
    program = program_of(attention, "sm100", lambda emitted: lambda *arguments: pytest.fail("launched"))
    q = torch.zeros(0, 5, 2, 64, dtype=torch.bfloat16)
    assert Kernel(program)(attention.checks.call(q, q, q, {}, WHOLE, False))[0].shape == (0, 5, 2, 64)


def test_deterministic_gradients_have_a_kernel_of_their_own():
    loads = []

    def load(emitted):
        loads.append(emitted.manifest["scratch"] if emitted.modules[0].name == "backward" else None)
        return lambda *arguments: None

    attention = attnspec.build("attention dense\nhead_dim 64\n")
    program = program_of(attention, "sm100", load)
    q = torch.zeros(1, 5, 2, 64, dtype=torch.bfloat16, requires_grad=True)
    for deterministic in (False, True, True):
        Kernel(program)(attention.checks.call(q, q, q, {}, WHOLE, deterministic))[0].sum().backward()
    assert [one["turns"] > 0 for one in loads if one is not None] == [False, True]


def test_a_call_like_one_before_is_launched_with_the_same_arguments():
    launches = []
    attention = attnspec.build("attention biased\nhead_dim 64\ninput w: f32[heads]\nscore = score + w[h]\nmask = causal\n")
    program = program_of(attention, "sm100", lambda emitted: lambda *arguments: launches.append(arguments))
    q, k, w = torch.zeros(1, 5, 2, 64).bfloat16(), torch.zeros(1, 9, 1, 64).bfloat16(), torch.zeros(2)
    for offset in (0, 0, 3, 3, 0):
        call = attention.checks.call(q, k, k, {"w": w}, Placing(q_offset=offset, len_q=9), False)
        assert program.forward(call).out.shape == q.shape
    described = [
        [(tuple(one.shape), one.stride(), one.dtype) if isinstance(one, torch.Tensor) else one for one in arguments]
        for arguments in launches
    ]
    assert described[0] == described[1] == described[4]
    assert described[2] == described[3] != described[0]
    assert 3 in described[2]
