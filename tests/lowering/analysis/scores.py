"""Short ways to write float expressions by hand, and a hypothesis strategy for scores."""

from hypothesis import strategies as st

from attnspec.language.expr import Binary, Call, Compare, Expr, Name, Number, Read, Select, Unary

SCORE = Name("score", "float")
T = Read("t", (), "float")


def real(value: float) -> Number:
    return Number(value, "float")


def real_op(sign: str, left: Expr, right: Expr) -> Binary:
    return Binary(sign, left, right, "float")  # type: ignore[arg-type]


def call(function: str, *arguments: Expr) -> Call:
    return Call(function, arguments, "float")


LEAVES = st.one_of(st.sampled_from([SCORE, SCORE, T]), st.floats(-2, 2).map(lambda x: real(round(x, 3))))


def positive(value: Expr) -> Expr:
    return real_op("+", call("abs", value), real(0.25))


def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Every operation, kept where float64 is well behaved: bounded exponents, positive radicands and divisors."""
    return st.one_of(
        st.builds(real_op, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(lambda a, b: real_op("/", a, positive(b)), inner, inner),
        st.builds(lambda f, a: call(f, call("tanh", a)), st.sampled_from(["exp", "exp2"]), inner),
        st.builds(lambda f, a: call(f, positive(a)), st.sampled_from(["log", "sqrt", "rsqrt"]), inner),
        st.builds(call, st.sampled_from(["tanh", "sigmoid", "abs"]), inner),
        st.builds(call, st.sampled_from(["min", "max"]), inner, inner),
        st.builds(lambda a: Unary("-", a, "float"), inner),
        st.builds(lambda a, b, c: Select(Compare("<", a, b), b, c, "float"), inner, inner, inner),
    )


SCORES = st.recursive(LEAVES, grow, max_leaves=7)
