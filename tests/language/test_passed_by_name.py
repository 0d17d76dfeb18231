"""Names that tensors and constants cannot have, because they are passed by name beside other arguments."""

import inspect
from fractions import Fraction

import numpy
import pytest

import attnspec
from attnspec.language.diagnostics import SpecError
from attnspec.language.load import read_spec
from attnspec.language.names import BUILD_WORDS, CALL_WORDS

HEAD = "attention x\nhead_dim 64\n"


def keywords(function: object) -> set[str]:
    """Arguments of a function that a caller may name, or that stand before the names."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {
        item.name
        for item in found
        if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL) and item.name not in ("self", "spec")
    }


def test_the_words_are_those_of_the_call_and_of_build() -> None:
    assert keywords(attnspec.Attention.__call__) == CALL_WORDS
    assert keywords(attnspec.build) == BUILD_WORDS


@pytest.mark.parametrize(
    "statement",
    [*(f"input {word}: f32" for word in sorted(CALL_WORDS)), *(f"const {word} = 3" for word in sorted(BUILD_WORDS))],
)
def test_a_name_of_another_argument_is_taken(statement: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(f"{HEAD}{statement}\n")
    assert [item.name for item in caught.value.diagnostics] == ["name-taken"]


def test_what_is_not_passed_may_have_such_a_name() -> None:
    read_spec(f"{HEAD}let k = kv + 1\ndef on(v) = v < k\nconst deterministic = 2\nmask = on(deterministic)\n")


@pytest.mark.parametrize("written", ["3", "3.0"])
@pytest.mark.parametrize(
    "value", [numpy.zeros(2, int), numpy.zeros(2), 10**400, Fraction(10**400)], ids=["ints", "floats", "int", "fraction"]
)
def test_an_array_or_a_number_of_no_size_is_no_constant(written: str, value: float) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(f"{HEAD}const n = {written}\n", {"n": value})
    assert [item.name for item in caught.value.diagnostics] == ["bad-override"]
