"""`attnspec::forward` and `attnspec::backward`: what torch's compilers, transforms and savers of memory make of a variant."""

import io
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from attnspec.runtime import checked
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from torch import library
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import attnspec
from attnspec.operators.handles import remember
from tests.printed_graphs import printed_by

LEARNED = """attention learned
head_dim 8
input ids: i32[batch, len_kv] in 0..9
learned slope: f32[heads]
score = score * slope[h] + (0.5 if kv % 2 == 0 else 1.0)
mask = causal and ids[b, kv] < 8
sink = slope[h]
"""
PACKED = "attention packed\nhead_dim 8\nvarlen\nlearned w: f32\nscore = score * w\nmask = causal\n"
PART = "attention part\nhead_dim 8\ngroup 2\nlearned table: bf16[heads, 4]\nscore = score + table[h, q % 4]\nmask = causal\n"


@dataclass(frozen=True)
class Case:
    """A call and the gradients that come back to it."""

    attention: Any
    arrays: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    fixed: dict[str, Any]
    gradients: tuple[torch.Tensor, ...]

    def run(self, attention, *arrays):
        """out and lse. arrays: q, k, v and the learned tensors."""
        q, k, v, *learned = arrays
        return attention(q, k, v, return_lse=True, **self.fixed, **dict(zip(self.names, learned, strict=True)))

    def results(self, attention):
        """out, lse and all gradients."""
        leaves = [array.clone().requires_grad_() for array in self.arrays]
        found = self.run(attention, *leaves)
        return [*found, *torch.autograd.grad(found, leaves, self.gradients)]


def case(text: str, **place: int) -> Case:
    attention = attnspec.build(text)
    inputs = draw_inputs(attention.spec, Shape(2, 4, 2, 5, 7))
    names = attention.learned
    arrays = (inputs.q, inputs.k, inputs.v, *(inputs.tensors[name] for name in names))
    fixed = {name: array for name, array in inputs.tensors.items() if name not in names} | inputs.keywords | place
    return Case(attention, arrays, names, fixed, (inputs.dout, inputs.dlse))


CASES = {
    "learned": lambda: case(LEARNED),
    "packed": lambda: case(PACKED),
    "part": lambda: case(PART, q_offset=3, kv_offset=1, len_q=9, len_kv=9),
}


@pytest.fixture(params=CASES)
def one(request) -> Case:
    return CASES[request.param]()


def are_equal(found, expected):
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_compiled_function_without_graph_breaks_gives_the_same_bits(one, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(one.attention, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    assert are_equal(one.results(compiled), one.results(one.attention))


def test_other_lengths_do_not_compile_again():
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    attention = attnspec.build("attention dense\nhead_dim 8\nmask = causal\n")
    compiled = torch.compile(attention, fullgraph=True, dynamic=True, backend=counter)
    for length in (5, 6, 9):
        q = torch.randn(2, length, 2, 8).bfloat16()
        assert torch.equal(compiled(q, q, q), attention(q, q, q))
    assert counter.frame_count == 1


def test_every_node_of_a_compiled_call_is_printed_in_one_line(one):
    """A second line would be code, and a syntax error: the comment sign stands before the first."""
    nodes = printed_by(lambda backend: one.results(torch.compile(one.attention, fullgraph=True, backend=backend)))
    assert sum("torch.ops.attnspec." in node for node in nodes) == 2
    assert [node for node in nodes if len(node.splitlines()) > 1] == []


def test_an_exported_graph_holds_one_operator_and_gives_the_same_bits():
    one = CASES["learned"]()
    program = torch.export.export(Module(one), one.arrays)
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert called.count(torch.ops.attnspec.forward.default) == 1
    assert are_equal(program.module()(*one.arrays), one.run(one.attention, *one.arrays))


class Module(torch.nn.Module):
    """A case as a module of its arrays."""

    def __init__(self, one: Case) -> None:
        super().__init__()
        self.one = one

    def forward(self, q, k, v, *learned):
        return self.one.run(self.one.attention, q, k, v, *learned)


@pytest.mark.slow
def test_a_graph_saved_by_one_process_runs_in_another_that_has_not_built_the_variant(tmp_path):
    one = CASES["learned"]()
    torch.export.save(torch.export.export(Module(one), one.arrays), tmp_path / "graph.pt2")
    torch.save((one.arrays, one.run(one.attention, *one.arrays)), tmp_path / "arrays.pt")
    text = (
        "import torch, attnspec.operators\n"
        f"arrays, expected = torch.load({str(tmp_path / 'arrays.pt')!r})\n"
        f"found = torch.export.load({str(tmp_path / 'graph.pt2')!r}).module()(*arrays)\n"
        "print(all(map(torch.equal, found, expected)))\n"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.strip() == "True"


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_gives_the_same_gradients(one, use_reentrant):
    def saved(q, k, v, **keywords):
        return checkpoint(lambda *arrays: one.run(one.attention, *arrays), q, k, v, *(keywords[name] for name in one.names),
                          use_reentrant=use_reentrant)  # fmt: skip

    leaves = [array.clone().requires_grad_() for array in one.arrays]
    out, lse = saved(*leaves[:3], **dict(zip(one.names, leaves[3:], strict=True)))
    torch.autograd.backward((out, lse), one.gradients)
    assert are_equal([out, lse, *(leaf.grad for leaf in leaves)], one.results(one.attention))


def test_torch_func_gives_the_gradients_of_autograd(one):
    found, pull, *_ = torch.func.vjp(lambda *arrays: one.run(one.attention, *arrays), *one.arrays)
    assert are_equal([*found, *pull(one.gradients)], one.results(one.attention))


def test_vmap_gives_what_a_loop_gives():
    one = CASES["learned"]()
    many = torch.stack([one.arrays[0], -one.arrays[0]])

    def total(q):
        out, lse = one.run(one.attention, q, *one.arrays[1:])
        return (out.float() * one.gradients[0]).sum() + (lse * one.gradients[1]).sum()

    expected = torch.stack([torch.func.grad(total)(q) for q in many])
    assert torch.equal(torch.vmap(torch.func.grad(total))(many), expected)


def test_forward_mode_is_refused_with_the_reason(one):
    q = one.arrays[0]
    with pytest.raises(attnspec.ArgumentError, match=r"q: forward-mode derivatives \(torch\.func\.jvp\) are not derived"):
        torch.func.jvp(lambda q: one.run(one.attention, q, *one.arrays[1:])[1], (q,), (q,))


def test_a_second_derivative_in_a_graph_is_refused(one):
    def total(q):
        return one.run(one.attention, q, *one.arrays[1:])[0].float().square().sum()

    with pytest.raises(RuntimeError, match="first derivatives alone"):
        torch.func.grad(lambda q: torch.func.grad(total)(q).float().sum())(one.arrays[0])


def operator_arguments(one: Case, *, needs_gradients: bool) -> tuple[Any, ...]:
    q, k, v, *learned = (array.clone().requires_grad_(needs_gradients) for array in one.arrays)
    given = dict(zip(one.names, learned, strict=True)) | one.fixed
    tensors = [given[tensor.name] for tensor in one.attention.spec.tensors]
    numbers = [
        given.get(name, default) for name, default in (("q_offset", 0), ("kv_offset", 0), ("len_q", None), ("len_kv", None))
    ]
    starts = (given.get("cu_seqlens_q"), given.get("cu_seqlens_kv"))
    return q, k, v, tensors, *starts, *numbers, remember(one.attention), False


def test_opcheck_is_clean_on_the_forward(one):
    forward = torch.ops.attnspec.forward
    library.opcheck(forward.default, operator_arguments(one, needs_gradients=True))


def test_opcheck_is_clean_on_the_backward(one):
    inputs = operator_arguments(one, needs_gradients=False)
    out, lse, kept = torch.ops.attnspec.forward(*inputs)
    backward = torch.ops.attnspec.backward
    library.opcheck(backward.default, (*one.gradients, out, lse, kept, *inputs))


def test_a_call_traced_for_a_gpu_needs_no_gpu():
    attention = attnspec.build(PART)
    with torch._subclasses.FakeTensorMode(), torch.no_grad():
        q, k = (torch.empty(2, *sizes, 8, dtype=torch.bfloat16, device="cuda") for sizes in ((5, 4), (7, 2)))
        table = torch.empty(4, 4, dtype=torch.bfloat16, device="cuda")
        out, lse = attention(q, k, k, return_lse=True, table=table)
        rest = (None, None, 0, 0, None, None, remember(attention), False)
        dq, _, _, (dtable,) = torch.ops.attnspec.backward(out, lse, out, lse, [], q, k, k, [table], *rest)
    assert (out.shape, lse.shape, out.device.type) == ((2, 5, 4, 8), (2, 4, 5), "cuda")
    assert (dq.shape, dtable.shape, dtable.device.type) == (q.shape, (4, 4), "cuda")


def test_a_wrong_argument_is_named_inside_a_compiled_function():
    torch._dynamo.reset()
    attention = attnspec.build(PART)
    q = torch.zeros(1, 2, 2, 16, dtype=torch.bfloat16)
    with pytest.raises(Exception, match="q: head_dim 16"):
        torch.compile(attention, fullgraph=True, backend="aot_eager")(q, q, q, table=torch.zeros(2, 4, dtype=torch.bfloat16))


def test_a_counter_of_operators_sees_one():
    class Seen(TorchDispatchMode):
        names: tuple[str, ...] = ()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names += (str(function),)
            return function(*args, **(kwargs or {}))

    one = CASES["part"]()
    with Seen() as seen:
        found = one.run(one.attention, *one.arrays)
    assert seen.names.count("attnspec.forward.default") == 1
    assert are_equal(found, one.run(one.attention, *one.arrays))


def test_a_saved_module_holds_no_kernel(tmp_path):
    module = Module(CASES["learned"]())
    expected = module(*module.one.arrays)
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    assert are_equal(torch.load(stream, weights_only=False)(*module.one.arrays), expected)


@pytest.mark.slow
def test_the_operator_runs_the_emulator_too():
    attention = attnspec.build("attention plain\nhead_dim 64\nmask = causal\n", target="sm100", on="emulator")
    inputs = draw_inputs(attention.spec, Shape(1, 2, 1, 30, 40))
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    found = compiled(inputs.q, inputs.k, inputs.v, return_lse=True)
    assert are_equal(found, attention(inputs.q, inputs.k, inputs.v, return_lse=True))


def test_a_call_of_shapes_and_strides_seen_before_is_not_checked_again(monkeypatch):
    attention = attnspec.build(PART)
    inputs = draw_inputs(attention.spec, Shape(1, 4, 2, 5, 7))
    expected = attention(inputs.q, inputs.k, inputs.v, **inputs.tensors)
    monkeypatch.setattr(checked, "check_call", lambda *_: pytest.fail("checked again"))
    assert torch.equal(attention(inputs.q.clone(), inputs.k, inputs.v, **inputs.tensors), expected)


def test_no_more_signatures_are_kept_than_is_said(monkeypatch):
    monkeypatch.setattr(checked, "MOST_KEPT", 3)
    attention = attnspec.build("attention plain\nhead_dim 8\n")
    for length in range(1, 9):
        attention(*[torch.zeros(1, length, 1, 8, dtype=torch.bfloat16)] * 3)
        assert len(attention.checks.layouts) <= 3
