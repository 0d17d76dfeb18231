from attnspec.backends.expression import Dialect, key_of, write_values
from attnspec.backends.reference.dialect import SPELLINGS
from attnspec.backends.source import Source

from attnspec.language.expr import Binary, Call, Compare, Convert, Logic, Name, Number, Read, Select, Unary

DIALECT = Dialect(
    SPELLINGS,
    name=lambda node: node.name,
    number=lambda node: repr(node.value),
    read=lambda node, indices: f"{node.tensor}[{', '.join(indices)}]",
    search=lambda node, operands: f"search({', '.join(operands)})",
)
Q, KV = Name("q", "int"), Name("kv", "int")


def written(*exprs):
    source = Source()
    results = write_values(source, DIALECT, exprs)
    return [*source.lines, *results]


def minus(left, right, **fields):
    return Binary("-", left, right, "int", **fields)


def test_a_shared_value_is_computed_once():
    distance = minus(Q, KV)
    product = Binary("*", distance, distance, "int")
    assert written(product) == ["v1 = q - kv", "v1 * v1"]


def test_values_shared_between_results_are_computed_once():
    distance = minus(Q, KV)
    assert written(Unary("-", distance, "int"), distance) == ["v1 = q - kv", "-v1", "v1"]


def test_a_persons_name_names_the_value():
    assert written(Unary("-", minus(Q, KV, label="gap; import os"), "int")) == ["u_gap__import_os = q - kv", "-u_gap__import_os"]


def test_parentheses_stand_where_the_order_needs_them_and_nowhere_else():
    one = Number(1, "int")
    assert written(minus(minus(Q, KV), one)) == ["q - kv - 1"]
    assert written(minus(Q, minus(KV, one))) == ["q - (kv - 1)"]
    assert written(Binary("*", minus(Q, KV), one, "int")) == ["(q - kv) * 1"]
    assert written(minus(Binary("*", Q, KV, "int"), Number(-3, "int"))) == ["q * kv - (-3)"]


def test_bit_operations_and_comparisons_are_kept_apart():
    both = Logic("and", Compare("<=", KV, Q), Compare("<", Binary("&", Q, KV, "int"), Q))
    assert written(both) == ["(kv <= q) & ((q & kv) < q)"]


def test_calls_need_no_parentheses_around_their_operands():
    chosen = Select(Compare("<", Q, KV), minus(Q, KV), Q, "int")
    assert written(Call("min", (chosen, Binary("//", Q, KV, "int")), "int")) == [
        "minimum(choose(q < kv, q - kv, q), floor_divide(q, kv))"
    ]


def test_a_long_expression_is_cut_into_lines():
    value = Convert(Read("slopes", (Name("h", "int"),), "float"))
    for _ in range(40):
        value = Binary("+", value, Call("exp", (value,), "float"), "float")
    assert max(map(len, written(value))) < 150


def test_long_chains_of_distinct_values_are_cut_into_lines():
    value = Name("score", "float")
    for number in range(60):
        value = Binary("+", value, Number(number + 0.125, "float"), "float")
    lines = written(value)
    assert max(map(len, lines)) < 150
    assert len(lines) > 3


def test_a_comparison_is_keyed_by_the_kind_of_its_operands():
    assert key_of(Compare("<", Name("score", "float"), Number(1.0, "float"))) == "float <"
