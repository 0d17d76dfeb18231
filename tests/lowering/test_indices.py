"""Indices as kernels compute them: what is proved to be inside its axis whatever anything is, and that no value is lost."""

import pytest
from attnspec.lowering.indices import INSIDE, WITHIN, settle, settle_indices
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from attnspec.language import expr as e
from attnspec.language.diagnostics import SpecError
from attnspec.language.expr import Call, Expr, Read, children, nodes
from attnspec.language.limits import MAX_INT, MIN_INT
from attnspec.language.load import read_spec
from attnspec.language.spec import Spec
from tests.language.plain_values import FUNCTIONS, OPERATORS
from tests.language.random_text import ints

HEAD = "attention x\nhead_dim 64\nconst N = 3\n"
GIVEN = "input ids: i32[batch, len_kv] in 0..7\ninput long: i32[batch, len_kv] in 0..2147483647\n"
NAMES = ("q", "kv", "b", "h", "hkv", "batch", "heads", "kv_heads", "len_q", "len_kv")


def index_of(spec: Spec) -> Expr:
    """The settled index of the only read of `table`."""
    (score,) = settle([spec.score], spec.tensors)
    return next(at.indices[-1] for at in nodes(score) if isinstance(at, Read) and at.tensor == "table")


def settled(extent: str, index: str) -> Expr:
    return index_of(read_spec(f"{HEAD}{GIVEN}learned table: f32[{extent}]\nscore = score + table[{index}]\n"))


def is_inside(index: Expr) -> bool:
    return isinstance(index, Call) and index.function == INSIDE


@pytest.mark.parametrize(
    ("extent", "index"),
    [
        ("2 * N + 1", "clamp(qpos - kv, -N, N) + N"),
        ("2 * N + 1", "N - clamp(kv - q, -N, N)"),
        ("N", "kv % N"),
        ("8", "(q - kv) & 7"),
        ("8", "clamp(ids[b, kv], 0, 7)"),
        ("8", "clamp(floor(score), 0, 7)"),
        ("8", "min(max(q, 0), 7)"),
        ("15", "q % 8 + kv % 8"),
        ("8", "(q - kv) * 100000 % 8"),
        ("4", "3"),
        ("4", "(1 if q > kv else 3)"),
        ("32", "t5_bucket_causal(kv - qpos)"),
    ],
)
def test_an_index_that_nothing_can_bring_outside_is_taken_as_it_is(extent: str, index: str) -> None:
    assert is_inside(settled(extent, index))


@pytest.mark.parametrize(
    ("extent", "index"),
    [
        ("len_kv", "kv"),  # keys beyond the sequence are read too
        ("len_q", "q"),
        ("heads", "h"),
        ("len_q + len_kv - 1", "q - kv + len_kv - 1"),
        ("8", "ids[b, kv]"),  # a declared range is taken on trust, and wrong data must not reach other memory
        ("8", "min(ids[b, kv], 7)"),
        ("8", "min(q, 7)"),  # q has no lower bound that holds for rows beyond the sequence
        ("8", "min(abs(q - kv), 7)"),  # the least 32-bit integer has no absolute value
        ("32", "t5_bucket(kv - qpos)"),
        ("heads", "clamp(q - kv, 0, heads - 1)"),  # the size is not fixed by the file
        ("16", "clamp(q, 0, 7) >> (kv & 3)"),  # what a shift by a value does is the target's
    ],
)
def test_an_index_that_rests_on_positions_sizes_or_data_is_kept_inside(extent: str, index: str) -> None:
    assert not any(is_inside(at) for at in nodes(settled(extent, index)))


def test_a_clamp_one_too_wide_for_the_axis_is_not_inside() -> None:
    spec = read_spec(f"{HEAD}learned table: f32[2 * N + 1]\nscore = score + table[clamp(q - kv, -N, N) + N]\n")
    (read,) = [at for at in nodes(spec.score) if isinstance(at, Read)]
    narrow = read_spec(f"{HEAD}learned table: f32[2 * N]\nscore = score + table[0]\n").tensor("table")
    assert not is_inside(settle_indices(narrow, read.indices, ())[0])
    assert is_inside(settle_indices(spec.tensor("table"), read.indices, ())[0])


def test_a_constant_goes_into_the_clamp_before_it() -> None:
    """clamp(x, -N, N) + N is one instruction as a clamp from 0 on."""
    (index,) = settled("2 * N + 1", "clamp(q - kv, -N, N) + N").arguments  # type: ignore[union-attr]
    assert isinstance(index, Call) and index.function == WITHIN
    assert [at.value for at in index.arguments[1:]] == [6]  # type: ignore[union-attr]


def test_no_constant_goes_where_a_sum_might_leave_32_bits() -> None:
    index = settled("2 * N + 1", "clamp(long[b, kv], -N, N) + N")
    assert is_inside(index) and not any(isinstance(at, Call) and at.function == WITHIN for at in nodes(index))


def test_settled_indices_stay_as_they_are() -> None:
    spec = read_spec(f"{HEAD}learned table: f32[7]\nscore = score + table[clamp(q - kv, -N, N) + N]\n")
    once = settle([spec.score], spec.tensors)
    assert settle(once, spec.tensors) == once


def wrapped(value: float) -> int:
    return (int(value) - MIN_INT) % 2**32 + MIN_INT


def on_a_device(expr: Expr, given: dict[str, int]) -> float:
    """What 32-bit arithmetic gives that wraps, of ints."""
    if expr.kind == "float" or isinstance(expr, Read):
        return given["score"]
    values = [on_a_device(at, given) for at in children(expr)]
    if isinstance(expr, Call) and expr.function in (INSIDE, WITHIN):
        return values[0] if expr.function == INSIDE else max(min(values[0], values[1]), 0)
    return of_node(expr, values, given)


def of_node(expr: Expr, values: list[float], given: dict[str, int]) -> float:
    match expr:
        case e.Number() | e.Truth():
            return expr.value
        case e.Name():
            return given[expr.name]
        case e.Unary():
            return wrapped(-values[0]) if expr.op == "-" else not values[0]
        case e.Binary(op="//" | "%") if values[1] == 0:
            return 0
        case e.Binary():
            return wrapped(OPERATORS[expr.op](*values))
        case e.Compare():
            return OPERATORS[expr.op](*values)
        case e.Logic():
            return all(values) if expr.op == "and" else any(values)
        case e.Select():
            return values[1] if values[0] else values[2]
        case e.Call():
            return wrapped(FUNCTIONS[expr.function](*values))
    raise AssertionError(expr)


def taken(text: str) -> Spec:
    """The spec of a text that was drawn; one that the language refuses is not tried."""
    try:
        return read_spec(text)
    except SpecError:
        reject()


ANY_INT = st.one_of(st.sampled_from((MIN_INT, MIN_INT + 1, -1, 0, 1, MAX_INT - 1, MAX_INT)), st.integers(MIN_INT, MAX_INT))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(ints(), st.integers(1, 9), st.lists(ANY_INT, min_size=len(NAMES), max_size=len(NAMES)))
def test_what_is_proved_to_be_inside_is_inside_whatever_the_names_are(text: str, size: int, numbers: list[int]) -> None:
    tensor = read_spec(f"{HEAD}learned table: f32[{size}]\nscore = score + table[0]\n").tensor("table")
    spec = taken(f"{HEAD}input t: f32\nlet x = {text}\nscore = score + float(x)\n")
    given_ = {**dict(zip(NAMES, numbers, strict=True)), "score": 1, "scale": 1}
    for at in nodes(spec.score):
        if at.kind == "int":
            (index,) = settle_indices(tensor, (at,), spec.tensors)
            if is_inside(index):
                assert 0 <= on_a_device(index, given_) < size


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(ints(), st.integers(-9, 9), st.integers(0, 9), st.integers(-12, 12))
def test_a_settled_index_has_the_value_of_the_index(text: str, low: int, width: int, added: int) -> None:
    tensor = read_spec(f"{HEAD}learned table: f32[8]\nscore = score + table[0]\n").tensor("table")
    spec = taken(f"{HEAD}input t: f32\nscore = score + float(clamp({text}, {low}, {low + width}) + {added})\n")
    given_ = {name: 3 + number for number, name in enumerate(NAMES)} | {"score": 1, "scale": 1}
    for at in nodes(spec.score):
        if at.kind == "int":
            (index,) = settle_indices(tensor, (at,), spec.tensors)
            assert on_a_device(index, given_) == on_a_device(at, given_)
