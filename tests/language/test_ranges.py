"""Ranges and proofs against brute force over small sizes."""

import itertools

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attnspec.language.diagnostics import SpecError
from attnspec.language.expr import Expr, nodes
from attnspec.language.linear import Floor, Linear, extreme, floor_divide, is_never_positive, linear, without_indices
from attnspec.language.load import read_spec
from attnspec.language.ranges import Ranges
from tests.language.plain_values import value
from tests.language.random_text import ints

HEAD = "attention x\nhead_dim 64\nconst N = 3\n"
ATOMS = ("q", "kv", "h", "len_q", "len_kv", "heads")


def evaluate(form: Linear, at: dict[str, int]) -> int:
    total = form.constant
    for atom, count in form.terms:
        total += count * (evaluate(atom.form, at) // atom.divisor if isinstance(atom, Floor) else at[atom])
    return total


def places(largest: int = 3):
    """Sizes and indices inside them."""
    for len_q, len_kv, heads in itertools.product(range(1, largest + 1), repeat=3):
        for q, kv, h in itertools.product(range(len_q), range(len_kv), range(heads)):
            sizes = {"len_q": len_q, "len_kv": len_kv, "heads": heads, "batch": 2, "kv_heads": 2}
            yield {**sizes, "q": q, "kv": kv, "h": h, "b": 1, "hkv": 1}


PLACES = list(places())


@st.composite
def forms(draw) -> Linear:
    """A linear form, with floors of others in it."""
    term = st.tuples(st.sampled_from(ATOMS), st.integers(-3, 3))
    form = linear(draw(st.integers(-6, 6)), draw(st.lists(term, max_size=3)))
    for _ in range(draw(st.integers(0, 2))):
        inner = linear(draw(st.integers(-6, 6)), draw(st.lists(term, min_size=1, max_size=2)))
        form += floor_divide(inner, draw(st.integers(1, 5))).times(draw(st.integers(-4, 4)))
    return form


@settings(max_examples=300, deadline=None)
@given(forms())
def test_a_form_proved_never_positive_is_never_positive(form: Linear) -> None:
    if is_never_positive(form):
        assert all(evaluate(form, at) <= 0 for at in PLACES)


@settings(max_examples=100, deadline=None)
@given(forms())
def test_bounds_in_sizes_hold(form: Linear) -> None:
    low, high = without_indices(form, upper=False), without_indices(form, upper=True)
    least, most = extreme(form, upper=False), extreme(form, upper=True)
    for at in PLACES:
        assert least <= evaluate(low, at) <= evaluate(form, at) <= evaluate(high, at) <= most


@settings(max_examples=100, deadline=None)
@given(forms(), st.integers(1, 7))
def test_floor_of_a_form_is_the_form_of_the_floor(form: Linear, divisor: int) -> None:
    divided = floor_divide(form, divisor)
    assert all(evaluate(divided, at) == evaluate(form, at) // divisor for at in PLACES[::5])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(ints())
def test_a_range_holds_every_value(text: str) -> None:
    try:
        spec = read_spec(f"{HEAD}let x = {text}\nscore = x\n")
    except SpecError:
        assume(False)
        return
    ranges = Ranges({})
    for at in nodes(spec.score):
        if at.kind == "int":
            _check_range(ranges, at)


def _check_range(ranges: Ranges, expr: Expr) -> None:
    found = ranges.of(expr)
    for place in PLACES[::3]:
        place = {**place, "score": 0.5, "scale": 0.25}
        try:
            at = value(expr, place)
        except (ZeroDivisionError, ValueError):
            continue  # a place that a `where` keeps the expression from
        assert all(evaluate(low, place) <= at for low in found.lows), (expr, place)
        assert all(at <= evaluate(high, place) for high in found.highs), (expr, place)


PROVED = [
    ("heads, len_q, len_kv", "h, q, kv"),
    ("batch, hkv_heads, 1".replace("hkv_heads", "kv_heads"), "b, hkv, 0"),
    ("batch, len_q, (len_kv + 31) // 32", "b, q, kv // 32"),
    ("len_kv // 32 + 1", "kv // 32"),
    ("(len_q + 63) // 64, (len_kv + 63) // 64", "q >> 6, kv >> 6"),
    ("len_q + len_kv - 1", "q - kv + len_kv - 1"),
    ("len_q + len_kv - 1", "len_q - 1 - q + kv"),
    ("2 * N + 1", "clamp(q - kv, -N, N) + N"),
    ("2 * N + 1", "min(max(kv - qpos, -N), N) + N"),
    ("N", "kv % N"),
    ("8", "kv & 7"),
    ("32", "kv // 2 % 32"),
    ("len_q", "abs(q - 0)"),
    ("len_q + len_kv", "abs(q - kv)"),
    ("len_kv", "max(kv - 5, 0)"),
    ("len_kv", "clamp(qpos, 0, len_kv - 1)"),
    ("2 * heads", "2 * h + (1 if q > kv else 0)"),
    ("32", "t5_bucket(kv - qpos)"),
    ("32", "t5_bucket_causal(kv - qpos)"),
    ("64", "8 * (q % 8) + kv % 8"),
    ("len_kv", "kv // 16 * 16"),
    ("16", "kv - kv // 16 * 16"),
    ("16", "(3 | kv % 8) ^ 8"),
]
NOT_PROVED = [
    ("heads, len_q, len_kv", "h, kv, q"),
    ("len_kv", "kv + 1"),
    ("len_kv", "kv - 1"),
    ("len_kv", "qpos"),
    ("len_kv // 32", "kv // 32"),
    ("len_q + len_kv - 2", "q - kv + len_kv - 1"),
    ("2 * N", "clamp(q - kv, -N, N) + N"),
    ("7", "kv & 7"),
    ("31", "t5_bucket(kv - qpos)"),
    ("len_kv", "kv * 100000 // 100000"),
    ("len_kv", "floor(score)"),
    ("4", "kv % len_q"),
    ("15", "kv - kv // 16 * 16"),
]


@pytest.mark.parametrize(("shape", "indices"), PROVED)
def test_an_index_inside_is_proved(shape: str, indices: str) -> None:
    read_spec(f"{HEAD}input t: f32[{shape}]\nscore = score + t[{indices}]\n")


@pytest.mark.parametrize(("shape", "indices"), NOT_PROVED)
def test_an_index_that_may_leave_is_refused(shape: str, indices: str) -> None:
    with pytest.raises(SpecError, match="index-may-leave-extent"):
        read_spec(f"{HEAD}input t: f32[{shape}]\nscore = score + t[{indices}]\n")


def test_a_declared_range_proves_an_index() -> None:
    head = f"{HEAD}learned t: f32[16, len_kv]\n"
    read_spec(
        f"{head}input kind: i32[batch] in 0..15\ninput at: i32[len_q] in 0..len_kv - 1\nscore = score + t[kind[b], at[q]]\n"
    )
    with pytest.raises(SpecError, match=r"any 32-bit integer\n.*declare the range of `kind`: `in 0\.\.15`"):
        read_spec(f"{head}input kind: i32[batch]\nscore = score + t[kind[b], kv]\n")


def test_a_product_that_may_wrap_is_not_trusted() -> None:
    with pytest.raises(SpecError, match="lies in any 32-bit integer"):
        read_spec(f"{HEAD}input t: f32[8]\nscore = score + t[kv * 1000 * 1000 * 0]\n")
