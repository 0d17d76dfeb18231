"""Simplification keeps every value."""

import math

import pytest
from attnspec.lowering.simplify import simplify
from hypothesis import given, settings
from hypothesis import strategies as st

from attnspec.language.expr import Binary, Call, Compare, Expr, Logic, Read, Select, Truth, Unary
from attnspec.language.source import Source, Span
from tests.lowering.analysis.cases import tables
from tests.lowering.analysis.masks import KV, Q, any_atoms, any_ints, combined, compare, integer, op
from tests.lowering.analysis.naive import function_of
from tests.lowering.analysis.scores import SCORE, real, real_op

FLAG, OTHER = Read("flag", (), "bool"), Read("other", (), "bool")
WHOLE = st.integers(0, 40)


def smaller(left: Expr, right: int) -> Call:
    return Call("min", (left, integer(right)), "int")


SIMPLER = {
    "1 + 2 * 3": (op("+", integer(1), op("*", integer(2), 3)), integer(7)),
    "-7 // 2": (op("//", integer(-7), 2), integer(-4)),
    "-7 % 3": (op("%", integer(-7), 3), integer(2)),
    "q + 0": (op("+", Q, 0), Q),
    "0 + q": (op("+", integer(0), Q), Q),
    "q * 1": (op("*", Q, 1), Q),
    "q * 0": (op("*", Q, 0), integer(0)),
    "q - q": (op("-", Q, Q), integer(0)),
    "q // 1": (op("//", Q, 1), Q),
    "q % 1": (op("%", Q, 1), integer(0)),
    "q + 2 + 3": (op("+", op("+", Q, 2), 3), op("+", Q, 5)),
    "q + 2 - 3": (op("-", op("+", Q, 2), 3), op("-", Q, 1)),
    "q + 2 - 2": (op("-", op("+", Q, 2), 2), Q),
    "- - q": (Unary("-", Unary("-", Q, "int"), "int"), Q),
    "score * 1": (real_op("*", SCORE, real(1)), SCORE),
    "score / 1": (real_op("/", SCORE, real(1)), SCORE),
    "score - 0": (real_op("-", SCORE, real(0)), SCORE),
    "2.0 * 4.0": (real_op("*", real(2), real(4)), real(8)),
    "exp(0)": (Call("exp", (real(0),), "float"), real(1)),
    "min(min(q, 3), 5)": (
        Call("min", (Call("min", (Q, integer(3)), "int"), integer(5)), "int"),
        Call("min", (Q, integer(3)), "int"),
    ),
    "abs(-q)": (Call("abs", (Unary("-", Q, "int"),), "int"), Call("abs", (Q,), "int")),
    "q <= q": (compare(Q, "<=", Q), Truth(True)),
    "2 < 1": (compare(integer(2), "<", 1), Truth(False)),
    "not q < kv": (Unary("not", compare(Q, "<", KV), "bool"), compare(Q, ">=", KV)),
    "not not flag": (Unary("not", Unary("not", FLAG, "bool"), "bool"), FLAG),
    "true and flag": (Logic("and", Truth(True), FLAG), FLAG),
    "flag or true": (Logic("or", FLAG, Truth(True)), Truth(True)),
    "flag and flag": (Logic("and", FLAG, FLAG), FLAG),
    "flag and not flag": (Logic("and", FLAG, Unary("not", FLAG, "bool")), Truth(False)),
    "q < kv or q >= kv": (Logic("or", compare(Q, "<", KV), compare(Q, ">=", KV)), Truth(True)),
    "flag and (flag or other)": (Logic("and", FLAG, Logic("or", FLAG, OTHER)), FLAG),
    "q if flag else q": (Select(FLAG, Q, Q, "int"), Q),
    "q if not flag else kv": (Select(Unary("not", FLAG, "bool"), Q, KV, "int"), Select(FLAG, KV, Q, "int")),
    "nested choice": (Select(FLAG, Select(FLAG, Q, KV, "int"), KV, "int"), Select(FLAG, Q, KV, "int")),
    "true if flag else false": (Select(FLAG, Truth(True), Truth(False), "bool"), FLAG),
}

KEPT = {
    "score + 0.0 turns -0 into 0": real_op("+", SCORE, real(0)),
    "0 * score may be NaN": real_op("*", real(0), SCORE),
    "score - score may be NaN": real_op("-", SCORE, SCORE),
    "not score < 1 holds for NaN": Unary("not", Compare("<", SCORE, real(1)), "bool"),
    "score == score fails for NaN": Compare("==", SCORE, SCORE),
    "no reassociation": real_op("+", real_op("+", SCORE, real(1)), real(1e8)),
    "division by 0": op("//", integer(1), 0),
    "more than 32 bits": op("*", integer(2**30), 4),
}


@pytest.mark.parametrize("name", SIMPLER)
def test_simplifies(name: str) -> None:
    before, after = SIMPLER[name]
    assert simplify(before) == after


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert simplify(KEPT[name]) == KEPT[name]


@settings(max_examples=150, deadline=None)
@given(any_ints(), WHOLE, WHOLE, st.integers(0, 9))
def test_ints_keep_their_value(expr, q, kv, seed) -> None:
    fixed = {"q": q, "kv": kv, "len_q": 41, "len_kv": 41, "T": tables(seed, 64)}
    assert function_of(simplify(expr), **fixed)() == function_of(expr, **fixed)()


@settings(max_examples=150, deadline=None)
@given(combined(any_atoms(), 5), WHOLE, WHOLE, st.integers(0, 9))
def test_bools_keep_their_value(expr, q, kv, seed) -> None:
    fixed = {"q": q, "kv": kv, "len_q": 41, "len_kv": 41, "T": tables(seed, 64)}
    assert function_of(simplify(expr), **fixed)() == function_of(expr, **fixed)()


FLOATS = st.recursive(
    st.one_of(st.just(SCORE), st.sampled_from([0.0, 1.0, 2.5, -3.0]).map(real)),
    lambda inner: st.one_of(
        st.builds(real_op, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(lambda a: Unary("-", a, "float"), inner),
        st.builds(lambda a: Call("abs", (a,), "float"), inner),
        st.builds(lambda a, b, c: Select(Unary("not", Compare("<", a, b), "bool"), b, c, "float"), inner, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(FLOATS, st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]))
def test_floats_keep_their_value_and_sign_for_nan_inf_and_zero(expr, score) -> None:
    before, after = function_of(expr, score=score)(), function_of(simplify(expr), score=score)()
    assert math.isnan(before) == math.isnan(after)
    if not math.isnan(before):
        assert (before, math.copysign(1, before)) == (after, math.copysign(1, after))


def test_a_replaced_node_keeps_the_name_a_person_gave_it() -> None:
    span = Span(Source("a.attn", "row"), 0, 3)
    found = simplify(Binary("+", Q, integer(0), "int", span, "row"))
    assert found.label == "row"
    assert found == Q
