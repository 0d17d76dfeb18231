"""Short ways to write expressions by hand, and hypothesis strategies for masks."""

from hypothesis import strategies as st

from attnspec.language.expr import Binary, Call, Compare, Expr, Logic, Name, Number, Read, Select, Truth, Unary
from attnspec.language.spec import Tensor

Q, KV, LEN_Q, LEN_KV, B, H, HKV = (Name(name, "int") for name in ("q", "kv", "len_q", "len_kv", "b", "h", "hkv"))


def integer(value: int) -> Number:
    return Number(value, "int")


def op(sign: str, left: Expr, right: Expr | int) -> Binary:
    return Binary(sign, left, right if not isinstance(right, int) else integer(right), "int")  # type: ignore[arg-type]


def compare(left: Expr, sign: str, right: Expr | int) -> Compare:
    return Compare(sign, left, right if not isinstance(right, int) else integer(right))  # type: ignore[arg-type]


def both(*parts: Expr) -> Expr:
    return parts[0] if len(parts) == 1 else Logic("and", parts[0], both(*parts[1:]))


def either(*parts: Expr) -> Expr:
    return parts[0] if len(parts) == 1 else Logic("or", parts[0], either(*parts[1:]))


def negation(part: Expr) -> Expr:
    return Unary("not", part, "bool")


def absolute(value: Expr) -> Expr:
    return Call("abs", (value,), "int")


QPOS = op("+", Q, op("-", LEN_KV, LEN_Q))
DISTANCE = op("-", Q, KV)
CAUSAL = compare(KV, "<=", QPOS)

IDS = Tensor("ids", "i32", (), False, is_sorted=True)
IDS_KV = Tensor("ids_kv", "i32", (), False, is_sorted=True)
TAGS = Tensor("tags", "i32", (), False)
TENSORS = {tensor.name: tensor for tensor in (IDS, IDS_KV, TAGS)}

SIGNS = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
SMALL = st.integers(-20, 45)


def table(name: str, index: Expr) -> Read:
    return Read(name, (index,), "int")


def combined(atoms: st.SearchStrategy[Expr], leaves: int) -> st.SearchStrategy[Expr]:
    """Any `and`, `or`, `not`, if-else of atoms."""
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.builds(lambda a, b: Logic("and", a, b), inner, inner),
            st.builds(lambda a, b: Logic("or", a, b), inner, inner),
            st.builds(negation, inner),
            st.builds(lambda c, a, b: Select(c, a, b, "bool"), inner, inner, inner),
        ),
        max_leaves=leaves,
    )


def difference_atoms() -> st.SearchStrategy[Expr]:
    """Comparisons of q, kv, q - kv, qpos - kv with numbers and lengths, and the same through abs, min, max, if-else."""
    sides = st.sampled_from([Q, KV, DISTANCE, op("-", KV, QPOS), op("-", op("*", KV, 3), op("*", Q, 3)), op("-", KV, LEN_Q)])
    plain = st.builds(compare, sides, SIGNS, SMALL)
    folded = st.builds(lambda c, sign, w: compare(absolute(op("-", DISTANCE, c)), sign, w), SMALL, SIGNS, SMALL)
    pick = st.sampled_from(["min", "max"])
    extreme = st.builds(
        lambda f, c, sign, w: compare(op("-", KV, Call(f, (Q, integer(c)), "int")), sign, w), pick, SMALL, SIGNS, SMALL
    )
    select = st.builds(
        lambda c, sign, w, u: compare(op("-", KV, Q), "<=", Select(compare(Q, sign, c), integer(w), integer(u), "int")),
        SMALL,
        SIGNS,
        SMALL,
        SMALL,
    )
    return st.one_of(plain, plain, plain, folded, extreme, select, st.booleans().map(Truth))


def any_ints() -> st.SearchStrategy[Expr]:
    """Integer expressions of every kind; indices are held inside their tables, of 64 elements."""
    leaves = st.one_of(st.sampled_from([Q, KV, DISTANCE, QPOS, LEN_KV]), SMALL.map(integer))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        held = inner.map(lambda at: Call("min", (Call("max", (at, integer(0)), "int"), integer(63)), "int"))
        return st.one_of(
            st.builds(op, st.sampled_from(["+", "-"]), inner, inner),
            st.builds(op, st.just("*"), inner, st.integers(-3, 3)),
            st.builds(op, st.sampled_from(["//", "%"]), inner, st.sampled_from([-3, 1, 2, 3, 5, 8])),
            st.builds(op, st.just("&"), inner, st.sampled_from([1, 3, 5, 7])),
            st.builds(op, st.just(">>"), inner, st.integers(0, 3)),
            st.builds(lambda f, a, b: Call(f, (a, b), "int"), st.sampled_from(["min", "max"]), inner, inner),
            inner.map(absolute),
            st.builds(lambda s, a, b: Select(compare(a, s, b), a, b, "int"), SIGNS, inner, inner),
            st.builds(table, st.sampled_from(["ids", "ids_kv", "tags"]), held),
            st.builds(table, st.sampled_from(["ids", "ids_kv", "tags"]), st.sampled_from([Q, KV])),
        )

    return st.recursive(leaves, grow, max_leaves=5)


def any_atoms() -> st.SearchStrategy[Expr]:
    """Comparisons of any ints."""
    return st.builds(compare, any_ints(), SIGNS, any_ints())
