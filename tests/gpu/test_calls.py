"""Calls on a real GPU: right numbers, and nothing that waits, compiles again or leaves the stream and device it is called on."""

import subprocess
import sys

import pytest
import torch
from attnspec.runtime import stored_function
from attnspec.runtime.compare import compare
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape

import attnspec
from attnspec import variants
from tests.small_constants import SMALL

PACKED = "attention packed\nhead_dim 64\nvarlen\nmask = causal\n"
PLAIN = "attention plain\nhead_dim 64\nmask = causal\n"
SOURCES = {name: variants.path(name) for name in ("causal", "gemma2_local", "gpt_oss", "t5_bias", "document_causal")}


def attention_of(name: str):
    return attnspec.build(PACKED) if name == "packed" else attnspec.build(SOURCES[name], **SMALL.get(name, {}))


def drawn(attention, device, shape: Shape):
    return draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1).on(device)


def random(device, *sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device=device).bfloat16()


@pytest.mark.parametrize("name", [*SOURCES, "packed"])
@pytest.mark.parametrize("shape", [Shape(2, 4, 2, 300, 417), Shape(1, 2, 1, 1, 5)], ids=["tiles", "short"])
def test_results_are_those_of_the_oracle(device, name, shape):
    attention = attention_of(name)
    assert [row for row in compare(attention, drawn(attention, device, shape), forward_only=True) if not row.is_right] == []


@pytest.mark.parametrize("name", [*SOURCES, "packed"])
def test_gradients_are_those_of_the_oracle(device, name):
    attention = attention_of(name)
    rows = compare(attention, drawn(attention, device, Shape(1, 4, 2, 300, 417)))
    assert [row for row in rows if not row.is_right] == []


@pytest.mark.parametrize("dims", ["136", "192, 128", "256", "64, 256"])
def test_gradients_of_wide_heads_are_those_of_the_oracle(device, dims):
    attention = attnspec.build(f"attention wide\nhead_dim {dims}\nmask = causal\n")
    rows = compare(attention, drawn(attention, device, Shape(1, 4, 2, 300, 417)))
    assert [row for row in rows if not row.is_right] == []


@pytest.mark.parametrize("name", ["causal", "gpt_oss", "relative_bias", "mla"])
def test_deterministic_gradients_are_the_same_bits_every_time(device, name):
    """More key tiles than multiprocessors, so that CTAs wait for one another and go on to tiles of their own."""
    attention = attnspec.build(variants.path(name), **SMALL.get(name, {}))
    inputs = drawn(attention, device, Shape(2, 16, 8, 1000, 3000))
    leaves = [inputs.q, inputs.k, inputs.v, *(inputs.tensors[name] for name in attention.learned)]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    given = inputs.tensors | dict(zip(attention.learned, leaves[3:], strict=True))

    def gradients():
        out = attention(*leaves[:3], deterministic=True, **inputs.keywords, **given)
        return torch.autograd.grad(out, leaves, inputs.dout)

    first = gradients()
    assert all(torch.equal(one, other) for _ in range(5) for one, other in zip(gradients(), first, strict=True))


def test_a_call_waits_for_nothing_on_the_gpu(device):
    attention = attnspec.build(PACKED)
    inputs = drawn(attention, device, Shape(3, 4, 2, 300, 417))
    expected = attention(inputs.q, inputs.k, inputs.v, **inputs.keywords)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = attention(inputs.q, inputs.k, inputs.v, **inputs.keywords)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found, expected)


def test_a_call_runs_on_the_stream_it_is_made_on(device):
    attention = attnspec.build(PLAIN)
    base = random(device, 1, 512, 2, 64)
    expected = attention(base + 1, base, base)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # a launch on another stream would not wait for what follows
        query = base + 1
        found = attention(query, base, base)
    stream.synchronize()
    assert torch.equal(found, expected)


def test_a_captured_call_is_replayed_on_new_values(device):
    attention = attnspec.build(PLAIN)
    query, key = random(device, 2, 300, 2, 64), random(device, 2, 300, 2, 64)
    attention(query, key, key)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = attention(query, key, key)
    query.copy_(random(device, 2, 300, 2, 64))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(found, attention(query, key, key))


def test_other_sizes_and_strides_do_not_compile_again(device, monkeypatch):
    attention = attnspec.build(PLAIN)
    attention(*[random(device, 1, 8, 2, 64)] * 3)
    monkeypatch.setattr(stored_function, "assemble_object", lambda *_: pytest.fail("compiled again"))
    for batch, length, heads in ((1, 1, 2), (3, 129, 4), (2, 1000, 8)):
        wide = random(device, batch, length, 3 * heads, 64)
        q, k, v = wide.split(heads, dim=2)
        assert torch.equal(attention(q, k, v), attention(q.contiguous(), k.contiguous(), v.contiguous()))


SECOND = """
import torch, attnspec
from attnspec.runtime import stored_function
def refuse(*_): raise SystemExit("compiled again")
stored_function.assemble_object = refuse
q = torch.ones(1, 300, 2, 64, device="cuda", dtype=torch.bfloat16)
print(attnspec.build({text!r})(q, q, q).float().mean().item())
"""


def test_a_second_process_compiles_nothing(device):
    attnspec.build(PLAIN)(*[random(device, 1, 8, 2, 64)] * 3)
    found = subprocess.run([sys.executable, "-c", SECOND.format(text=PLAIN)], capture_output=True, text=True)
    assert (found.stdout.strip(), found.returncode) == ("1.0", 0), found.stderr


def test_a_second_gpu_gives_the_same_bits(device):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    attention = attnspec.build(PLAIN)
    query, key = random(device, 1, 300, 2, 64), random(device, 1, 300, 2, 64)
    other = torch.device("cuda", 1)
    assert torch.equal(attention(query.to(other), key.to(other), key.to(other)).to(device), attention(query, key, key))


def test_a_compiled_function_gives_the_same_bits(device):
    attention = attnspec.build(PLAIN)
    query, key = random(device, 1, 300, 2, 64), random(device, 1, 300, 2, 64)
    compiled = torch.compile(lambda q, k: attention(q * 2, k, k) + 1, fullgraph=True, dynamic=True)
    assert torch.equal(compiled(query, key), attention(query * 2, key, key) + 1)


def test_gradients_through_a_compiled_function_are_the_same_bits(device):
    attention = attnspec.build(PLAIN)
    query, key = random(device, 1, 300, 2, 64).requires_grad_(), random(device, 1, 300, 2, 64).requires_grad_()

    def run(q, k):
        return attention(q * 2, k, k, deterministic=True) + 1

    compiled = torch.compile(run, fullgraph=True, dynamic=True)
    found, expected = (torch.autograd.grad(one(query, key).float().square().sum(), (query, key)) for one in (compiled, run))
    assert all(map(torch.equal, found, expected))
