"""How tensors are addressed, and what an element costs."""

import pytest
from attnspec.lowering.analysis.addresses import address_of
from attnspec.lowering.analysis.analysed import ElementCost
from attnspec.lowering.analysis.cost import element_cost

from attnspec.language.expr import Call, Convert, Expr, Name, Read
from tests.lowering.analysis.cases import analysed
from tests.lowering.analysis.masks import CAUSAL, DISTANCE, HKV, KV, LEN_KV, QPOS, B, H, Q, integer, op, table
from tests.lowering.analysis.scores import SCORE, call, real, real_op


def clamped(value: Expr, reach: int) -> Expr:
    return Call("min", (Call("max", (value, integer(-reach)), "int"), integer(reach)), "int")


ADDRESSES = {
    "scalar": ((), (integer(3),), (Name("len_q", "int"),)),
    "head": ((B,), (H,), (HKV,), (B, H)),
    "row": ((Q,), (B, H, Q), (op("//", Q, 64), integer(0)), (table("ids", Q),)),
    "key": ((KV,), (B, KV), (op("%", KV, 4),), (table("ids", KV),)),
    "distance": (
        (DISTANCE,),
        (op("-", QPOS, KV),),
        (H, op("+", clamped(DISTANCE, 8), 8)),
        (op("+", op("-", KV, Q), op("-", LEN_KV, 1)),),
        (op("//", op("-", op("*", Q, 3), op("*", KV, 3)), 2),),
        (table("ids", clamped(DISTANCE, 8)),),
    ),
    "element": ((H, Q, KV), (op("+", Q, KV),), (op("-", op("*", Q, 2), KV),), (DISTANCE, Q), (B, Q, op("+", KV, 1))),
    "scattered": (
        (table("ids", op("+", Q, KV)),),
        (op("-", op("//", Q, 8), op("//", KV, 8)),),
        (op("*", Q, KV),),
        (Q, op("%", KV, 8)),
        (H, op("-", table("ids", Q), table("ids", KV))),
    ),
}


@pytest.mark.parametrize(("address", "indices"), [(key, item) for key, items in ADDRESSES.items() for item in items])
def test_address_class(address: str, indices: tuple[Expr, ...]) -> None:
    found, reason = address_of(indices)
    assert found == address
    assert reason


VARIANTS = {
    "forgetting": {("gate_q", "row"), ("gate_kv", "key")},
    "relative_bias": {("bias", "distance")},
    "t5_bias": {("bias", "distance")},
    "pair_bias": {("bias", "element")},
    "graphormer": {("bias", "scattered"), ("path", "element")},
    "document_packing": {("ids_q", "row"), ("ids_kv", "key")},
    "gpt_oss": {("sinks", "head")},
    "differential": {("weight", "scalar")},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_reads_of_a_variant(name: str) -> None:
    assert {(item.tensor, item.address) for item in analysed(name).reads} == VARIANTS[name]


SQUARE = real_op("*", SCORE, SCORE)
SHARED = call("tanh", real_op("*", SCORE, real(0.1)))
COSTS = {
    "causal": ((CAUSAL,), ElementCost(0, 0, 1, 0)),
    "softcap": ((real_op("*", real(50.0), call("tanh", real_op("/", SCORE, real(50.0)))),), ElementCost(1, 2, 0, 0)),
    "a product into a sum": ((real_op("+", SQUARE, real(1.0)),), ElementCost(0, 1, 0, 0)),
    "two products into a sum": (
        (real_op("+", real_op("*", SCORE, SCORE), real_op("*", SCORE, real(3))),),
        ElementCost(0, 2, 0, 0),
    ),
    "a shared value": ((real_op("*", SHARED, SHARED),), ElementCost(1, 2, 0, 0)),
    "shared by two": ((SHARED, real_op("-", real(1.0), SHARED)), ElementCost(1, 2, 0, 0)),
    "once a row": ((real_op("*", SCORE, call("exp", Read("gate", (Q,), "float"))),), ElementCost(0, 1, 0, 0)),
    "once a key": ((real_op("*", SCORE, call("exp", Read("gate", (KV,), "float"))),), ElementCost(0, 1, 0, 0.25)),
    "once a distance": ((real_op("+", SCORE, Read("bias", (clamped(DISTANCE, 8),), "float")),), ElementCost(0, 1, 0, 1)),
    "an int as a float": ((Convert(DISTANCE),), ElementCost(0, 0, 2, 0)),
    "division by 64": ((op("//", DISTANCE, 64),), ElementCost(0, 0, 2, 0)),
    "nothing": ((None,), ElementCost(0, 0, 0, 0)),
}


@pytest.mark.parametrize("name", COSTS)
def test_cost_of_an_element(name: str) -> None:
    exprs, expected = COSTS[name]
    assert element_cost(*exprs) == expected
