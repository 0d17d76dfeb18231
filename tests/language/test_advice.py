"""What an error advises is what was meant."""

import pytest

from attnspec.language.load import read_spec
from tests.language.catalogue import HEADER, first_fault

BRACKETS = "all indices stand in one pair of brackets"


@pytest.mark.parametrize(
    ("statements", "meant"),
    [
        ("learned bias: f32[heads, len_q]\nscore = score + bias[h][q]", "bias[h, q]"),
        ("learned bias: f32[heads][len_q]\nscore = score", "f32[heads, len_q]"),
        ("input bias: f32[heads, len_q, len_kv]\nscore = score + bias [h] [q + 1][ kv]", "bias[h, q + 1, kv]"),
        ("input bias: f32[heads, 8]\nlet x = bias[rows[h]][3]", "name[h, q]"),
    ],
)
def test_brackets_after_brackets_are_told_to_be_one_pair(statements: str, meant: str) -> None:
    found = first_fault(f"{HEADER}{statements}\n")
    assert (found.message, found.help) == (BRACKETS, f"write `{meant}`")


@pytest.mark.parametrize(
    ("size", "meant"),
    [("head", "heads"), ("h", "heads"), ("q", "len_q"), ("kv", "len_kv"), ("b", "batch"), ("hkv", "kv_heads"), ("lenq", "len_q"),
     ("kv_head", "kv_heads"), ("seqlen_k", "len_kv"), ("widht", "width")],
)  # fmt: skip
def test_a_wrong_name_in_a_shape_or_a_range_is_told_of_a_size(size: str, meant: str) -> None:
    for declared in (f"f32[{size}]", f"i32[batch] in 0..{size}"):
        assert first_fault(f"{HEADER}const width = 3\ninput t: {declared}\n").help == f"did you mean `{meant}`?"


@pytest.mark.parametrize(
    "statements",
    [
        "score = score + slope\nlearned slope: f32",
        "score = score + slope[h]\nlearned slope: f32[heads]",
        "score = score * slope\nconst slope = 3",
        "mask = kv < slope\nlet slope = q + 3",
        "score = slope(score)\ndef slope(x) = 2 * x",
        "input t: f32[slope]\nconst slope = 3",
    ],
)
def test_a_name_used_before_it_is_given_is_told_where_it_is_given(statements: str) -> None:
    found = first_fault(f"{HEADER}{statements}\n")
    assert found.name in ("unknown-name", "unknown-function")
    assert found.help == "line 4 gives it: names are given before they are used"


def test_a_name_made_of_itself_is_not_told_to_be_given_later() -> None:
    assert "line" not in first_fault(f"{HEADER}let slope = slope + 1\n").help


def test_a_name_that_is_given_twice_is_known_from_the_first_on() -> None:
    assert read_spec(f"{HEADER}const n = 3\nmask = kv < n\n")
    assert first_fault(f"{HEADER}const n = 3\nmask = kv < n\nconst n = 4\n").name == "name-taken"


@pytest.mark.parametrize(
    "made", ["8 + floor(score)", "floor(score) * 2", "-floor(score)", "q - floor(score)", "abs(floor(score))"]
)
def test_an_integer_that_overflows_in_every_call_is_a_fault_of_the_file(made: str) -> None:
    for statements in (f"score = score + float({made})", f"let n = {made}\nscore = score + float(clamp(n, 0, 9))"):
        found = first_fault(f"{HEADER}{statements}\n")
        text = found.span.source.text[found.span.start : found.span.end]
        assert (found.name, text) == ("integer-overflow", made)
        assert found.help.startswith("clamp what `floor` gives first")


@pytest.mark.parametrize("made", ["8 + clamp(floor(score), 0, 9)", "q * q * kv", "2147483647 - len_kv + q", "(q << 30) // 7"])
def test_an_integer_that_fits_in_some_calls_is_left_to_the_call(made: str) -> None:
    assert read_spec(f"{HEADER}score = score + float({made})\n")
