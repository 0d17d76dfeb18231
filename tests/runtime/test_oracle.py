"""The oracle itself, held against closed forms, torch's own autograd, and finite differences."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from attnspec.runtime import oracle, oracle_backward, oracle_blur, oracle_expression, oracle_scatter

import attnspec
from tests.oracle import Problem, solve

PARTS = (oracle, oracle_backward, oracle_blur, oracle_expression, oracle_scatter)
OWN = tuple(module.__name__ for module in PARTS[1:])
ALLOWED = (*OWN, "attnspec.language", "numpy", "collections.abc", "dataclasses", "typing")
BIASED = """attention biased
head_dim 8
scale 0.5
learned bias: f32
learned sinks: f32[heads]
learned table: f32[heads, 3]
score = softcap(score + bias, 2.0)
score = score * table[h, clamp(q - kv, 0, 2)]
mask = kv <= q - 1
sink = sinks[h] * 2.0
"""


def imports_of(module):
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("module", PARTS)
def test_the_oracle_shares_no_code_with_what_it_judges(module):
    assert [name for name in imports_of(module) if not name.startswith(ALLOWED)] == []


def problem(rng, spec):
    shape = {"bias": (), "sinks": (4,), "table": (4, 3)}
    tensors = {name: np.asarray(rng.normal(size=sizes)) for name, sizes in shape.items()}
    return Problem(spec, rng.normal(size=(2, 5, 4, 8)), rng.normal(size=(2, 7, 2, 8)), rng.normal(size=(2, 7, 2, 8)), tensors)


def by_torch(case, dout, dlse):
    """The same variant written by hand in torch, float64, differentiated by torch."""
    q, k, v = (torch.tensor(array, requires_grad=True) for array in (case.q, case.k, case.v))
    bias, sinks, table = (torch.tensor(case.tensors[name], requires_grad=True) for name in ("bias", "sinks", "table"))
    rows, keys = torch.arange(5)[:, None], torch.arange(7)[None]
    score = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(2, 2)) * 0.5
    score = 2 * torch.tanh((score + bias) / 2) * table[:, (rows - keys).clamp(0, 2)]
    score = score.masked_fill(keys > rows - 1, -1e30)
    score = torch.cat([score, (2 * sinks)[None, :, None, None].expand(2, 4, 5, 1)], -1)
    lse = torch.logsumexp(score, -1)
    out = torch.einsum("bhqk,bkhd->bqhd", torch.exp(score - lse[..., None])[..., :-1], v.repeat_interleave(2, 2))
    leaves = {"q": q, "k": k, "v": v, "bias": bias, "sinks": sinks, "table": table}
    loss = (out * torch.tensor(dout)).sum() + (lse * torch.tensor(dlse)).sum()
    gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    return {"out": out.detach(), "lse": lse.detach()} | gradients


def test_the_oracle_agrees_with_torch_on_a_variant_written_by_hand():
    rng = np.random.default_rng(0)
    case = problem(rng, attnspec.build(BIASED).spec)
    dout, dlse = rng.normal(size=(2, 5, 4, 8)), rng.normal(size=(2, 4, 5))
    exact = solve(case, dout, dlse).exact
    found = {"out": exact.out, "lse": exact.lse} | exact.gradients
    for name, expected in by_torch(case, dout, dlse).items():
        np.testing.assert_allclose(found[name], expected.numpy(), rtol=1e-12, atol=1e-13, err_msg=name)


FUNCTIONS = ("abs(score)", "exp(score)", "exp2(score)", "log(abs(score) + 1.0)", "tanh(score)", "sigmoid(score)")
MORE = (
    "sqrt(abs(score) + 1.0)",
    "rsqrt(abs(score) + 1.0)",
    "min(score, 0.3)",
    "max(score * score, t)",
    "score / (t + 3.0)",
    "t / (abs(score) + 2.0)",
    "score if kv % 2 == 0 else -t * score",
    "-(score - t) * t",
)


@pytest.mark.parametrize("formula", FUNCTIONS + MORE)
def test_slopes_are_what_finite_differences_say(formula):
    spec = attnspec.build(f"attention f\nhead_dim 8\nscale 1.0\nlearned t: f32\nscore = {formula} + t * 0.0\n").spec
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(1, 2, 1, 8)), rng.normal(size=(1, 3, 1, 8)), rng.normal(size=(1, 3, 1, 8))
    dout, dlse = rng.normal(size=(1, 2, 1, 8)), rng.normal(size=(1, 1, 2))

    def loss(q, t):
        exact = solve(Problem(spec, q, k, v, {"t": np.asarray(t)})).exact
        return (exact.out * dout).sum() + (exact.lse * dlse).sum()

    gradients = solve(Problem(spec, q, k, v, {"t": np.asarray(0.8)}), dout, dlse).exact.gradients
    step = 1e-6
    push = rng.normal(size=q.shape)
    by_q = (loss(q + step * push, 0.8) - loss(q - step * push, 0.8)) / (2 * step)
    by_t = (loss(q, 0.8 + step) - loss(q, 0.8 - step)) / (2 * step)
    assert (gradients["q"] * push).sum() == pytest.approx(by_q, rel=1e-6, abs=1e-8)
    assert gradients["t"] == pytest.approx(by_t, rel=1e-6, abs=1e-8)


def test_the_spread_of_a_learned_gradient_is_the_root_of_the_squares_of_its_rows():
    """Row by row by hand: with a `dout` of that row alone, the magnitude is what it adds."""
    text = "attention s\nhead_dim 8\nlearned t: f32[5]\nscore = score + t[clamp(q - kv, 0, 4)]\nmask = kv <= q + 1\n"
    rng = np.random.default_rng(0)
    q, k, v, dout = (rng.standard_normal((1, 6, 1, 8)) for _ in range(4))
    call = Problem(attnspec.build(text).spec, q, k, v, {"t": rng.standard_normal(5)})
    squares = np.zeros(5)
    for row in range(6):
        alone = np.zeros_like(dout)
        alone[:, row] = dout[:, row]
        squares += solve(call, alone).magnitude.gradients["t"] ** 2
    np.testing.assert_allclose(solve(call, dout).spread["t"], np.sqrt(squares))


def test_gradients_of_the_stored_forward_are_those_of_the_exact_one_if_it_was_stored_exactly():
    text = "attention s\nhead_dim 8\nlearned t: f32[heads]\nscore = score * t[h]\nmask = causal\nsink = t[h]\n"
    rng = np.random.default_rng(1)
    q, k, v, dout = (rng.standard_normal((1, 6, 2, 8)) for _ in range(4))
    call = Problem(attnspec.build(text).spec, q, k, v, {"t": rng.standard_normal(2)})
    whole = solve(call, dout)
    again = solve(call, dout, None, (whole.exact.out, whole.exact.lse))
    for name, exact in whole.exact.gradients.items():
        np.testing.assert_allclose(again.exact.gradients[name], exact, atol=1e-12)


ROUNDED = """attention rounded
head_dim 8
input t: f32
learned w: f32[heads]
learned row: f32[len_q]
scale 0.5 + 0.1 * tanh(t)
score = softcap(score, 2.0) * tanh(row[q])
score = score + w[h] * sigmoid(score - row[q])
mask = kv <= q + 1
sink = tanh(w[h])
"""


def rounded(rng):
    """A call, its dout and dlse."""
    q, k, v, dout = (rng.normal(size=(1, 6, 2, 8)) for _ in range(4))
    tensors = {"t": np.asarray(rng.normal()), "w": rng.normal(size=2), "row": rng.normal(size=6)}
    return Problem(attnspec.build(ROUNDED).spec, q, k, v, tensors), dout, rng.normal(size=(1, 2, 6))


def by_another_tanh(monkeypatch, tanh):
    """Until it is undone, the oracle has this one."""
    monkeypatch.setitem(oracle_expression.VALUES, "tanh", tanh)
    monkeypatch.setitem(oracle_expression.VALUES, "sigmoid", lambda x: 0.5 + 0.5 * tanh(x / 2))


def results_of(answer):
    return {"out": answer.out, "lse": answer.lse} | answer.gradients


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("turns", [0.0, 3.0, 1e4], ids=["the same everywhere", "slow", "fast"])
def test_blur_covers_a_tanh_that_is_off_by_less_than_two_to_the_minus_eleven(monkeypatch, is_stored, turns):
    call, *upstream = rounded(np.random.default_rng(2))
    with monkeypatch.context() as patch:
        by_another_tanh(patch, lambda x: np.tanh(x) * (1 + 2.0**-11 * np.cos(turns * x)))
        forward = solve(call).exact
        stored = (forward.out, forward.lse) if is_stored else None
        found = results_of(solve(call, *upstream, stored).exact)
    answer = solve(call, *upstream, stored)
    exact, blur = results_of(answer.exact), results_of(answer.blur)
    for name in found if not is_stored else answer.exact.gradients:
        assert (np.abs(found[name] - exact[name]) <= blur[name] * 1.01).all(), name  # 1.01: of the second order
        assert blur[name].max() < 0.02 * np.abs(exact[name]).max(), name


def test_blur_is_nothing_without_a_tanh():
    spec = attnspec.build("attention plain\nhead_dim 8\nlearned t: f32\nscore = exp(t * score)\n").spec
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(1, 6, 2, 8)) for _ in range(4)]
    blur = solve(Problem(spec, *arrays[:3], {"t": np.asarray(0.5)}), arrays[3]).blur
    assert not any(array.any() for array in results_of(blur).values())


def test_magnitudes_are_never_smaller_than_the_results():
    rng = np.random.default_rng(0)
    case = problem(rng, attnspec.build(BIASED).spec)
    answer = solve(case, rng.normal(size=(2, 5, 4, 8)), rng.normal(size=(2, 4, 5)))
    for name, value in answer.exact.gradients.items():
        assert (np.abs(value) <= answer.magnitude.gradients[name] * (1 + 1e-12)).all()
    assert (np.abs(answer.exact.out) <= answer.magnitude.out * (1 + 1e-12)).all()


def test_packed_sequences_are_the_same_as_one_by_one():
    rng = np.random.default_rng(0)
    case = problem(rng, attnspec.build(BIASED).spec)
    ends = {"cu_seqlens_q": [0, 5, 10], "cu_seqlens_kv": [0, 7, 14]}
    packed = replace(case, q=case.q.reshape(10, 4, 8), k=case.k.reshape(14, 2, 8), v=case.v.reshape(14, 2, 8), **ends)
    dout = rng.normal(size=case.q.shape)
    one, other = solve(case, dout).exact, solve(packed, dout.reshape(10, 4, 8)).exact
    np.testing.assert_array_equal(other.out, one.out.reshape(10, 4, 8))
    np.testing.assert_array_equal(other.lse, one.lse.transpose(1, 0, 2).reshape(4, 10))
    np.testing.assert_array_equal(other.gradients["k"], one.gradients["k"].reshape(14, 2, 8))
    np.testing.assert_array_equal(other.gradients["table"], one.gradients["table"])
