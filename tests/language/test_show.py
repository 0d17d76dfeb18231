import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnspec import variants
from attnspec.language.expr import Convert, Name
from attnspec.language.load import read_spec
from attnspec.language.show import show
from attnspec.language.show_expr import show_expr
from tests.language.random_text import bools, floats, ints
from tests.language.test_expressions_are_pythons import HEADER, checked

HEAD = "attention x\nhead_dim 64\n"


@pytest.mark.parametrize("name", variants.names())
def test_a_shown_variant_reads_back_as_itself(name: str) -> None:
    spec = read_spec(variants.path(name))
    text = show(spec)
    assert read_spec(text) == spec
    assert show(read_spec(text)) == text


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(floats(), ints()), bools(3), floats(2))
def test_a_shown_spec_reads_back_as_itself(score: str, condition: str, second: str) -> None:
    lines = f"let x = {score}\nlet c = {condition}\nscore = x + 2 * x if c else {second}\nscore = score * x"
    spec = checked(lines)
    again = read_spec(show(spec))
    assert again == spec
    assert show(again) == show(spec)


VALUES = [
    ("(t + (u * w))", "t + u * w"),
    ("(t + u) * w", "(t + u) * w"),
    ("t - (u - w)", "t - (u - w)"),
    ("t - u - w", "t - u - w"),
    ("t / (u / w)", "t / (u / w)"),
    ("t / (u * w) / u", "t / (u * w) / u"),
    ("-(-q)", "--q"),
    ("-(t + u)", "-(t + u)"),
    ("-t * u", "-t * u"),
    ("-(t * u)", "-(t * u)"),
    ("(t if u < w else t) + u", "(t if u < w else t) + u"),
    ("t if u < w else (u if t < w else w)", "t if u < w else u if t < w else w"),
    ("(t if u < w else u) if t < w else w", "(t if u < w else u) if t < w else w"),
    ("(q << 2) + 1", "(q << 2) + 1"),
    ("q & (kv | h) ^ b", "q & (kv | h) ^ b"),
    ("float(q) + kv", "float(q) + kv"),
    ("(q + kv) / 2", "(q + kv) / 2.0"),
    ("max(min(q, 5), -5)", "max(min(q, 5), -5)"),
    ("q + (len_kv - len_q)", "qpos"),
    ("-inf if q < 3 else 0", "-inf if q < 3 else 0.0"),
]
CONDITIONS = [
    ("(q < kv) and (q > 1 or h == 2)", "q < kv and (q > 1 or h == 2)"),
    ("not (q < kv and q > 1)", "not (q < kv and q > 1)"),
    ("not (q < kv)", "not q < kv"),
    ("q < kv < h", "q < kv and kv < h"),
    ("q + 1 < (kv & 3)", "q + 1 < kv & 3"),
]


@pytest.mark.parametrize(("written", "shown"), VALUES)
def test_brackets_stand_only_where_a_value_needs_them(written: str, shown: str) -> None:
    text = show(read_spec(f"{HEADER}input u: f32\ninput w: f32\nscore = {written}\n"))
    assert text.splitlines()[-1] == f"score = {shown}"


@pytest.mark.parametrize(("written", "shown"), CONDITIONS)
def test_brackets_stand_only_where_a_condition_needs_them(written: str, shown: str) -> None:
    assert show(read_spec(f"{HEADER}mask = {written}\n")).splitlines()[-1] == f"mask = {shown}"


def test_let_and_const_names_are_kept() -> None:
    text = HEAD + "const N = 4\nlet near = kv > qpos - N\nmask = near or near and kv == 0\n"
    assert show(read_spec(text)) == text


def test_an_overridden_constant_is_shown_with_its_new_value() -> None:
    text = HEAD + "const N = 4\nmask = kv > qpos - N\n"
    assert show(read_spec(text, {"N": 7})) == text.replace("= 4", "= 7")


def test_an_int_constant_used_as_a_float_keeps_its_name() -> None:
    text = HEAD + "const N = 4\nscore = score * N\n"
    assert show(read_spec(text)) == text


def test_two_ints_made_floats_one_after_another_stay_so() -> None:
    spec = read_spec(HEAD + "score = q\nscore = score + kv\n")
    assert show(spec).splitlines()[-1] == "score = float(q) + kv"
    assert read_spec(show(spec)) == spec


def test_an_expression_alone_shows_its_conversions() -> None:
    assert show_expr(Convert(Name("q", "int"))) == "float(q)"


def test_header_statements_are_shown_where_they_differ_from_the_default() -> None:
    text = "attention x\nhead_dim 192, 128\ngroup 4\ndtype fp16\nvarlen\nscale -0.5\n"
    assert show(read_spec(text)) == text


def test_declarations_are_shown_whole() -> None:
    text = (
        HEAD
        + "input ids: i32[batch, len_kv] in 0..len_kv - 1 sorted\n"
        + "learned w: f32[heads, (len_q + 31) // 32]\nscore = score + w[h, q // 32]\n"
    )
    assert show(read_spec(text)) == text
