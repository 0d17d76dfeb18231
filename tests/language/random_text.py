"""Random expressions as text, kinds right by construction, brackets written and left out at random."""

from hypothesis import strategies as st

INT_NAMES = ("q", "kv", "b", "h", "hkv", "batch", "heads", "kv_heads", "len_q", "len_kv", "qpos")
GIVEN = {
    "q": 3, "kv": 5, "b": 1, "h": 2, "hkv": 1, "batch": 2, "heads": 4, "kv_heads": 2, "len_q": 7, "len_kv": 11, "qpos": 7,
    "score": -0.625, "scale": 0.25, "t": 1.75, "inf": float("inf"), "true": True, "false": False,
}  # fmt: skip
CONSTANTS = {"N": 3, "F": 2.5}


def bracketed(text: str, draw_bracket: bool) -> str:
    return f"({text})" if draw_bracket else text


@st.composite
def ints(draw, depth: int = 3) -> str:
    """An int expression that stays small."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*INT_NAMES, "N", "0", "1", "7", "-3", "0x10")))
    form = draw(st.integers(0, 7))
    left, right = draw(ints(depth - 1)), draw(ints(depth - 1))
    bracket = draw(st.booleans())
    match form:
        case 0 | 1 | 2:
            return bracketed(f"{left} {draw(st.sampled_from('+-*&|^'))} {right}", bracket)
        case 3:
            divisor = draw(st.sampled_from(("2", "N", "-5", "len_q", "max(q, 1)")))
            return bracketed(f"{left} {draw(st.sampled_from(('//', '%')))} {divisor}", bracket)
        case 4:
            shift = draw(st.sampled_from(("1", "kv % 4", "(q & 3)")))
            return bracketed(f"{left} >> {shift}", bracket)
        case 6:
            return f"-({left})"
        case 5:
            name = draw(st.sampled_from(("min", "max", "abs", "clamp")))
            return {"abs": f"abs({left})", "clamp": f"clamp({left}, -2, {right})"}.get(name, f"{name}({left}, {right})")
        case _:
            return f"({left} if {draw(bools(depth - 1))} else {right})"


@st.composite
def floats(draw, depth: int = 3) -> str:
    """A float expression; ints stand in it where the language makes them floats."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(("score", "scale", "t", "F", "0.5", "-2.0", "1e-3", "float(q)", "float(N)")))
    form = draw(st.integers(0, 5))
    # An int operand is bracketed: `score + q & 3` would be an operation on the bits of a float.
    whole = ints(depth - 1).map(lambda text: f"({text})")
    left, right = draw(floats(depth - 1)), draw(st.one_of(floats(depth - 1), whole))
    if draw(st.booleans()):
        left, right = right, left
    bracket = draw(st.booleans())
    match form:
        case 0 | 1:
            return bracketed(f"{left} {draw(st.sampled_from('+-*'))} {right}", bracket)
        case 2:
            return bracketed(
                f"{left} / {draw(st.sampled_from(('2', 'F', 'len_q', '0.5', 'N', f'(1.5 + abs({right}))', '(F / len_q)')))}",
                bracket,
            )
        case 3:
            name = draw(st.sampled_from(("tanh", "sigmoid", "abs", "min", "max", "where")))
            pair = {"where": f"where({draw(bools(depth - 1))}, {left}, {right})"}
            return pair.get(name, f"{name}({left}, {right})" if name in ("min", "max") else f"{name}({left})")
        case 4:
            return bracketed(f"-{bracketed(left, True)}", bracket)
        case _:
            return f"({left} if {draw(bools(depth - 1))} else {right})"


@st.composite
def bools(draw, depth: int = 2) -> str:
    """A condition."""
    if depth == 0:
        return draw(st.sampled_from(("q < kv", "true", "kv >= 2", "score > 0.5", "q == kv", "h != 1")))
    form = draw(st.integers(0, 4))
    bracket = draw(st.booleans())
    match form:
        case 0 | 1:
            sides = st.one_of(ints(depth - 1), floats(depth - 1))
            return bracketed(f"{draw(sides)} {draw(st.sampled_from(('<', '<=', '==', '!=', '>', '>=')))} {draw(sides)}", bracket)
        case 2:
            return bracketed(f"{draw(ints(0))} < {draw(ints(depth - 1))} <= {draw(ints(0))}", bracket)
        case 3:
            return bracketed(f"not {draw(bools(depth - 1))}", bracket)
        case _:
            left, right = draw(bools(depth - 1)), draw(bools(depth - 1))
            return bracketed(f"{left} {draw(st.sampled_from(('and', 'or')))} {right}", bracket)
