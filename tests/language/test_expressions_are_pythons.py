"""Python is the oracle: an expression of the language, read by Python, has the value that the checked nodes have."""

import math

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attnspec.language.diagnostics import SpecError
from attnspec.language.load import read_spec
from attnspec.language.spec import Spec
from tests.language.plain_values import FUNCTIONS, value
from tests.language.random_text import CONSTANTS, GIVEN, bools, floats, ints

HEADER = "attention x\nhead_dim 64\nconst N = 3\nconst F = 2.5\ninput t: f32\n"
PYTHON = {
    **GIVEN,
    **CONSTANTS,
    **FUNCTIONS,
    "__builtins__": {},
    "float": float,
    "clamp": lambda x, low, high: min(max(x, low), high),
    "where": lambda condition, if_true, if_false: if_true if condition else if_false,
}

# What a random expression may rightly be refused for.
REFUSED = {
    "division-by-zero", "divisor-may-be-zero", "shift-out-of-range", "argument-out-of-range", "float-out-of-range",
    "integer-overflow",
}  # fmt: skip


def checked(statement: str) -> Spec:
    """The spec, or a rejected example: constants that divide by zero and the like are not this test's subject."""
    try:
        return read_spec(f"{HEADER}{statement}\n")
    except SpecError as error:
        assert {item.name for item in error.diagnostics} <= REFUSED, error
        assume(False)
        raise


def python_value(text: str) -> float:
    try:
        return eval(text, dict(PYTHON))  # the text is drawn from this folder's grammar
    except ZeroDivisionError:
        assume(False)
        raise


def same(ours: float, theirs: float) -> bool:
    return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-12) or (math.isnan(ours) and math.isnan(theirs))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(floats(), ints()))
def test_a_score_has_the_value_python_gives_it(text: str) -> None:
    spec = checked(f"score = {text}")
    assert same(value(spec.score, GIVEN), float(python_value(text)))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(bools(3))
def test_a_condition_has_the_truth_python_gives_it(text: str) -> None:
    spec = checked(f"score = 1 if {text} else 0")
    assert value(spec.score, GIVEN) == bool(python_value(text))
