"""Derivatives against finite differences and torch autograd, both in float64."""

import math
import random
from collections.abc import Callable

import pytest
import torch
from attnspec.lowering.analysis.analysed import LearnedGradient
from attnspec.lowering.analysis.derivative import SCORE, ZERO, differentiate
from attnspec.lowering.analysis.evaluate import names_for
from attnspec.lowering.simplify import simplify
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnspec.language.expr import Call, Compare, Expr, Number, Select, nodes
from tests.lowering.analysis.cases import NAMES, analysed, case
from tests.lowering.analysis.naive import function_of
from tests.lowering.analysis.scores import SCORES, T, call, real, real_op


def tensor(value: object) -> torch.Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[object], torch.Tensor]:
    return lambda value: function(tensor(value))


TORCH: dict[str, object] = {
    "min": lambda a, b: min(a, b) if isinstance(a, int) else torch.minimum(tensor(a), tensor(b)),
    "max": lambda a, b: max(a, b) if isinstance(a, int) else torch.maximum(tensor(a), tensor(b)),
    "abs": lambda a: abs(a) if isinstance(a, int) else tensor(a).abs(),
    "floor": lambda a: math.floor(float(a)),
    **{name: by_torch(getattr(torch, name)) for name in ("exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "rsqrt")},
}

POINTS = st.floats(-3, 3).map(lambda x: x + 0.0137)


def autograd(expr: Expr, score: float, t: float) -> tuple[float, float]:
    at, learned = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (score, t))
    value = function_of(expr, **TORCH, score=at, T={"t": learned})()
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return 0.0, 0.0
    found = torch.autograd.grad(value, [at, learned], allow_unused=True)
    return tuple(0.0 if grad is None else float(grad) for grad in found)  # type: ignore[return-value]


def has_ties(expr: Expr, score: float, t: float) -> bool:
    """Is some corner (abs at 0, min and max of equals) at this point?"""
    for at in nodes(expr):
        if isinstance(at, Call) and at.function in ("abs", "min", "max"):
            left, *rest = (function_of(part, score=score, T={"t": t})() for part in at.arguments)
            if left == (rest[0] if rest else 0):
                return True
    return False


@settings(max_examples=250, deadline=None)
@given(SCORES, POINTS, POINTS)
def test_derivatives_equal_autograd(expr, score, t) -> None:
    assume(not has_ties(expr, score, t))
    expected = autograd(expr, score, t)
    for by, value in zip((SCORE, T), expected, strict=True):
        found = simplify(differentiate(expr, by))
        assert function_of(found, score=score, T={"t": t})() == pytest.approx(value, rel=1e-8, abs=1e-10)


@settings(max_examples=100, deadline=None)
@given(SCORES, POINTS, POINTS)
def test_derivatives_equal_finite_differences(expr, score, t) -> None:
    value = function_of(expr, "score", T={"t": t})
    step = 1e-5
    left, middle, right = (value(score + way * step) for way in (-1, 0, 1))
    # A corner or a jump within the step has no derivative to compare with.
    assume(abs(right - 2 * middle + left) < 2e-8 * (1 + abs(middle)) and not has_ties(expr, score, t))
    found = function_of(simplify(differentiate(expr, SCORE)), "score", T={"t": t})(score)
    assert found == pytest.approx((right - left) / (2 * step), rel=1e-4, abs=1e-4)


def test_softcap_shares_its_tanh() -> None:
    tanh = call("tanh", real_op("/", SCORE, real(50.0)))
    found = simplify(differentiate(real_op("*", real(50.0), tanh), SCORE))
    assert found == real_op("-", real(1.0), real_op("*", tanh, tanh))


@pytest.mark.parametrize(("cap", "score", "slope"), [(15.0, 5.0, 0.896630), (15.0, 30.0, 0.070651), (15.0, 60.0, 0.00134095)])
def test_softcap_slopes(cap: float, score: float, slope: float) -> None:
    capped = real_op("*", real(cap), call("tanh", real_op("/", SCORE, real(cap))))
    assert function_of(differentiate(capped, SCORE), score=score)() == pytest.approx(slope, rel=1e-5)


def test_abs_has_slope_0_at_0() -> None:
    assert function_of(differentiate(call("abs", SCORE), SCORE), score=0.0)() == 0.0


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max_follow_the_left_operand_at_ties(name: str) -> None:
    found = differentiate(call(name, real_op("*", SCORE, real(3)), real_op("*", SCORE, real(5))), SCORE)
    assert function_of(found, score=0.0)() == 3.0


@pytest.mark.parametrize("function", ["sqrt", "log"])
@pytest.mark.parametrize("form", ["outside", "inside"])
def test_a_branch_not_taken_adds_no_nan(function: str, form: str) -> None:
    is_positive = Compare(">", SCORE, real(0))
    outside = Select(is_positive, call(function, SCORE), real(0), "float")
    inside = call(function, Select(is_positive, SCORE, real(0), "float"))
    found = simplify(differentiate(outside if form == "outside" else inside, SCORE))
    # The factor 1 / 0 is inside the branch that is not taken.
    assert isinstance(found, Select)
    assert found.if_false == ZERO


def test_what_does_not_depend_on_the_score_has_no_derivative() -> None:
    assert differentiate(call("exp", T), SCORE) == ZERO


def scattered(entries: tuple[LearnedGradient, ...], like: dict[str, torch.Tensor], fixed: dict[str, object]):
    """Gradients of the tensors from the partials of one element."""
    found = {name: torch.zeros_like(value) for name, value in like.items()}
    for entry in entries:
        place = tuple(int(function_of(index, **fixed)()) for index in entry.indices)
        found[entry.tensor][place] += float(function_of(entry.partial, **fixed)())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_a_variant_equal_autograd(name: str) -> None:
    found = analysed(name)
    spec = found.spec
    draw = random.Random(name)
    for seed in range(6):
        len_q, len_kv = draw.randint(1, 24), draw.randint(1, 24)
        sizes, arrays = case(spec, len_q, len_kv, seed)
        element = {"q": draw.randrange(len_q), "kv": draw.randrange(len_kv)}
        fixed = {**names_for(draw.randrange(2), draw.randrange(4), **sizes), **element, "scale": 0.125}
        score = torch.tensor(draw.gauss(0, 3), dtype=torch.float64, requires_grad=True)
        lists = {key: array.tolist() for key, array in arrays.items()}
        learned = {item.name: torch.tensor(arrays[item.name], requires_grad=True) for item in spec.learned}
        value = function_of(spec.score, **{**fixed, **TORCH}, score=score, T={**lists, **learned})()
        inputs = [score, *learned.values()]
        grads = torch.autograd.grad(tensor(value) + 0 * score, inputs, allow_unused=True)
        numbers = {**fixed, "score": float(score.detach()), "T": lists}
        assert float(grads[0]) == pytest.approx(function_of(found.derivative.score, **numbers)(), rel=1e-8, abs=1e-12)
        ours = scattered(found.derivative.learned, learned, numbers)
        for key, grad in zip(learned, grads[1:], strict=True):
            expected = torch.zeros_like(ours[key]) if grad is None else grad
            torch.testing.assert_close(ours[key], expected, rtol=1e-8, atol=1e-12)


def test_the_sink_of_each_head_is_reduced_over_batch_and_rows() -> None:
    (entry,) = analysed("gpt_oss").derivative.sink
    assert entry.partial == Number(1.0, "float")
    assert (entry.address, entry.reduced) == ("head", ("b", "q"))


@pytest.mark.parametrize("name", [name for name in NAMES if analysed(name).derivative.learned])
def test_indices_not_reduced_are_fixed_by_the_address(name: str) -> None:
    found = analysed(name)
    sizes, arrays = case(found.spec, 4, 4, 0)
    lists = {key: array.tolist() for key, array in arrays.items()}
    grid = [(b, h, q, kv) for b in range(2) for h in range(4) for q in range(4) for kv in range(4)]
    for entry in found.derivative.learned:
        seen: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
        for b, h, q, kv in grid:
            fixed = {**names_for(b, h, **sizes), "q": q, "kv": kv, "T": lists}
            seen.setdefault(tuple(function_of(at, **fixed)() for at in entry.indices), []).append((b, h, q, kv))
        differ = {
            at for places in seen.values() for at, values in zip(("b", "h", "q", "kv"), zip(*places)) if len(set(values)) > 1
        }
        assert differ <= set(entry.reduced)
        if entry.address != "scattered":
            assert differ == set(entry.reduced)
