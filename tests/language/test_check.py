"""What a checked file means, statement by statement."""

import math

import pytest

from attnspec.language.canonical import canonical
from attnspec.language.check import check
from attnspec.language.diagnostics import SpecError
from attnspec.language.expr import Convert, Expr, Name, Number, Read, Select, Truth, children, nodes
from attnspec.language.load import read_spec
from attnspec.language.parse import parse
from attnspec.language.show_expr import show_expr
from attnspec.language.spec import Spec
from tests.language.plain_values import value

HEAD = "attention x\nhead_dim 64\n"


def spec_of(text: str, **constants: float) -> Spec:
    return read_spec(HEAD + text + "\n", constants)


def faults_of(text: str, **constants: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        check(parse(HEAD + text + "\n"), constants)  # type: ignore[arg-type]
    return [item.name for item in caught.value.diagnostics]


def visible(mask_text: str, len_q: int, len_kv: int, **constants: float) -> list[int]:
    """Keys that each query sees."""
    mask = spec_of(f"mask = {mask_text}", **constants).mask
    assert mask is not None
    sizes = {"len_q": len_q, "len_kv": len_kv}
    return [sum(bool(value(mask, {**sizes, "q": q, "kv": kv})) for kv in range(len_kv)) for q in range(len_q)]


# Alignment and windows (public bugs B2, B12, B16).


def test_causal_is_aligned_at_the_end() -> None:
    assert visible("causal", 4, 2) == [0, 0, 1, 2]
    assert visible("causal", 2, 5) == [4, 5]


def test_causal_top_left_is_aligned_at_the_start() -> None:
    assert visible("causal_top_left", 4, 2) == [1, 2, 2, 2]
    assert visible("causal_top_left", 2, 5) == [1, 2]


def test_a_window_includes_both_its_ends() -> None:
    assert visible("window(2, 0)", 6, 6) == [1, 2, 3, 3, 3, 3]
    assert visible("window(1, 1)", 6, 6) == [2, 3, 3, 3, 3, 2]
    assert visible("window(2, 0)", 2, 6) == [3, 3]


def test_none_leaves_a_window_open() -> None:
    assert visible("window(none, 0)", 4, 4) == visible("causal", 4, 4)
    assert visible("window(none, none)", 3, 5) == [5, 5, 5]
    assert visible("window_top_left(1, none)", 3, 4) == [4, 4, 3]


def test_chunks_and_strides_floor() -> None:
    assert visible("chunked(4) and causal", 8, 8) == [1, 2, 3, 4, 1, 2, 3, 4]
    assert visible("window(4, 0) and dilated(2)", 8, 8) == [1, 1, 2, 2, 3, 3, 3, 3]
    assert visible("(q - kv) % 3 == 0", 4, 4) == [2, 1, 1, 2]
    assert visible("(q - kv) // 4 == -1", 4, 4) == [3, 2, 1, 0]


def test_a_prefix_joins_a_causal_mask() -> None:
    assert visible("causal or prefix(3)", 8, 8) == [3, 3, 3, 4, 5, 6, 7, 8]
    assert visible("causal and (prefix(2) or kv > qpos - 3)", 8, 8) == [1, 2, 3, 4, 5, 5, 5, 5]


def test_a_neighbourhood_moves_inside_the_image() -> None:
    assert visible("neighbourhood_2d(5, 5, 1)", 25, 25) == [9] * 25


@pytest.mark.parametrize(
    ("relative", "both", "back"),
    [(-130, 15, 31), (-20, 10, 17), (-8, 8, 8), (-1, 1, 1), (0, 0, 0), (1, 17, 0), (5, 21, 0), (8, 24, 0), (20, 26, 0),
     (130, 31, 0)],
)  # fmt: skip
def test_t5_buckets_are_the_published_ones(relative: int, both: int, back: int) -> None:
    assert t5_buckets(relative) == (both, back)


@pytest.mark.parametrize("distance", range(135))
def test_t5_steps_are_those_of_the_exact_logarithm(distance: int) -> None:
    # E + floor(E log(d / E) / log(128 / E)) is the largest E + k with d ** E >= E ** E * (128 / E) ** k.
    def bucket(exact: int) -> int:
        steps = [k for k in range(exact) if distance**exact >= exact**exact * (128 // exact) ** k]
        return exact + steps[-1] if steps else distance

    assert t5_buckets(-distance) == (bucket(8), bucket(16))


def t5_buckets(relative: int) -> tuple[float, float]:
    place = {"q": 200, "kv": 200 + relative, "len_q": 400, "len_kv": 400}
    both, back = spec_of("score = t5_bucket(kv - qpos)"), spec_of("score = t5_bucket_causal(kv - qpos)")
    return value(both.score, place), value(back.score, place)


# Scores.


def test_softcap_is_cap_times_tanh_of_the_ratio() -> None:
    score = spec_of("score = softcap(score, 15)").score
    found = [value(score, {"score": x}) for x in (0, 5, 15, 30, 60)]
    assert found == pytest.approx([0, 4.822691, 11.423912, 14.460414, 14.989939], abs=1e-6)


def test_score_statements_apply_in_order() -> None:
    score = spec_of("score = score + 1\nscore = score * 2").score
    assert value(score, {"score": 3.0}) == 8.0


def test_a_let_holds_the_score_of_its_place() -> None:
    score = spec_of("let before = score\nscore = score * 2\nscore = score + before").score
    assert value(score, {"score": 3.0}) == 9.0


def test_without_a_score_statement_the_score_is_itself() -> None:
    assert spec_of("").score == Name("score", "float")


def test_the_score_may_be_of_the_distance_alone() -> None:
    assert "score" not in {at.name for at in nodes(spec_of("score = -(q - kv)").score) if isinstance(at, Name)}


def test_an_int_score_is_made_a_float() -> None:
    assert isinstance(spec_of("score = q - kv").score, Convert)


def test_a_let_is_one_node_wherever_it_is_used() -> None:
    spec = spec_of("let near = kv > qpos - 3\nmask = near and kv != 5 or near and kv != 7")
    found = [at for at in _tree(spec.mask or Truth(True)) if at.label == "near"]
    assert len(found) == 2 and found[0] is found[1]


def _tree(expr: Expr) -> list[Expr]:
    return [expr, *(node for child in children(expr) for node in _tree(child))]


def test_qpos_is_written_out_and_labelled() -> None:
    mask = spec_of("mask = kv <= qpos").mask
    assert show_expr(mask.right) == "qpos" and mask.right.label == "qpos"  # type: ignore[union-attr]


def test_spans_of_library_nodes_are_the_call() -> None:
    spec = spec_of("mask = causal and window(3, 0)")
    text = spec.source.text
    places = {text[at.span.start : at.span.end] for at in nodes(spec.mask)}  # type: ignore[arg-type]
    assert places == {"causal", "window(3, 0)", "3", "0", "causal and window(3, 0)"}


# Header, constants, scale, sink.


def test_defaults() -> None:
    spec = spec_of("")
    assert (spec.head_dim, spec.head_dim_v, spec.group, spec.dtype, spec.is_varlen) == (64, 64, None, "bf16", False)
    assert spec.scale == Number(1 / math.sqrt(64), "float") and spec.mask is None and spec.sink is None


def test_widths_group_and_type() -> None:
    spec = read_spec("attention x\nhead_dim 192, 128\ngroup any\ndtype fp16\nvarlen\n")
    assert (spec.head_dim, spec.head_dim_v, spec.group, spec.dtype, spec.is_varlen) == (192, 128, None, "fp16", True)


def test_a_scale_may_be_a_scalar_input() -> None:
    assert spec_of("input t: f32\nscale t").scale == Read("t", (), "float")
    assert spec_of("scale 2").scale == Number(2.0, "float")


def test_a_scale_may_not_be_learned_or_differ_by_place() -> None:
    assert faults_of("learned t: f32\nscale t\nscore = score * t") == ["scale-not-uniform"]
    assert faults_of("scale h * 1.0") == ["scale-not-uniform"]


def test_a_sink_is_a_number_a_head() -> None:
    assert spec_of("learned s: f32[heads]\nsink = s[h]").sink == Read("s", (Name("h", "int"),), "float")
    assert spec_of("sink = 0").sink == Number(0.0, "float")
    assert faults_of("sink = b * 1.0") == ["not-per-head"]


def test_constants_are_folded() -> None:
    spec = spec_of("const n = 3\nconst m = 2 * n + 1\nmask = kv % (m * m) == 0")
    assert show_expr(spec.mask) == "kv % 49 == 0"  # type: ignore[arg-type]


def test_overrides_reach_constants_made_of_others() -> None:
    spec = spec_of("const n = 3\nconst m = 2 * n\nmask = kv < m", n=5)
    assert [item.value for item in spec.constants] == [5, 10]


@pytest.mark.parametrize(
    ("written", "given", "found"), [("3", 4, 4), ("3", 4.5, 4.5), ("3", 4.0, 4.0), ("3.0", 4, 4.0), ("3.0", 0.5, 0.5)]
)
def test_an_int_constant_becomes_what_it_is_given(written: str, given: float, found: float) -> None:
    (constant,) = spec_of(f"const n = {written}\nscore = score * n", n=given).constants
    assert constant.value == found and type(constant.value) is type(found)


@pytest.mark.parametrize("bad", [True, "3", None, float("nan"), float("inf"), 2**31, 1e39, [3]])
def test_an_override_that_is_no_number_is_refused(bad: object) -> None:
    assert faults_of("const n = 3", n=bad) == ["bad-override"]


@pytest.mark.parametrize("text", ["score = score + 1e-46", "score = score / 1e-46", "const n = 1e-46"])
def test_a_number_that_f32_has_only_0_for_is_refused(text: str) -> None:
    assert faults_of(text) == ["float-out-of-range"]


def test_a_constant_that_is_0_as_f32_divides_by_zero() -> None:
    assert faults_of("const n = 1e-30\nscore = score / (n * n)") == ["division-by-zero"]


def test_an_override_of_no_constant_lists_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"its constants are: window, cap[\s\S]*did you mean `window`"):
        spec_of("const window = 3\nconst cap = 2.0", windw=3)


# Names.


def test_a_files_own_names_hide_the_librarys() -> None:
    spec = spec_of("const window = 2\nmask = kv > qpos - window and causal")
    assert show_expr(spec.mask) == "kv > qpos - 2 and kv <= qpos"  # type: ignore[arg-type]
    assert spec_of("def softcap(x, cap) = x\nscore = softcap(score, 2)").score == Name("score", "float")


def test_the_library_does_not_see_a_files_names() -> None:
    assert visible("prefix(2)", 2, 4) == [2, 2]
    spec = spec_of("def t5_steps_8(d) = 0\nscore = t5_bucket(kv - q)")
    assert value(spec.score, {"q": 0, "kv": 8}) == 24


@pytest.mark.parametrize(
    "statement", ["let q = 3", "const exp = 3", "input score: f32", "def min(a, b) = a", "let mask = 3", "const q_first = 1",
                  "def f(kv) = kv", "let lambda = 3", "const a = 1\nlet a = 2", "const a = 1\ndef f(a) = a"],
)  # fmt: skip
def test_names_that_mean_something_are_taken(statement: str) -> None:
    assert faults_of(statement) == ["name-taken"]


def test_a_name_must_be_given_before_it_is_used() -> None:
    assert faults_of("score = score * x\nlet x = 3") == ["unknown-name"]
    assert faults_of("def f(x) = g(x)\ndef g(x) = x") == ["unknown-name"]


def test_a_function_may_take_a_tensor() -> None:
    spec = spec_of("input slopes: f32[heads]\nscore = score + alibi(slopes)")
    assert show_expr(spec.score) == "score + -slopes[h] * abs(qpos - kv)"


def test_a_function_without_arguments_is_a_name() -> None:
    assert spec_of("def near = kv > qpos - 3\nmask = near").mask == spec_of("mask = kv > qpos - 3").mask


def test_none_chooses_the_side_of_a_function() -> None:
    text = "def cut(x, n) = x if n is none else min(x, n)\nscore = "
    assert spec_of(text + "cut(score, none)").score == Name("score", "float")
    assert show_expr(spec_of(text + "cut(score, 2)").score) == "min(score, 2.0)"


# Several faults.


def test_each_line_has_its_own_faults() -> None:
    text = "scoer = 3\nscore = score +\nmask = kv <= (q\nhead_dim 12\nlet a = b"
    with pytest.raises(SpecError) as caught:
        read_spec(HEAD + text)
    assert [(item.name, item.span.line) for item in caught.value.diagnostics] == [
        ("unknown-statement", 3), ("missing-operand", 4), ("missing-parenthesis", 5),
    ]  # fmt: skip


def test_the_checker_goes_on_after_a_fault() -> None:
    found = faults_of("let a = nothing + nothing\nscore = score + a\nmask = q\nlearned t: f32[heads, 8]\nsink = t[h, 9]")
    assert found == ["unknown-name", "kind-mismatch", "index-may-leave-extent"]


def test_what_rests_on_a_fault_is_not_reported() -> None:
    assert faults_of("const n = 1 // 0\ninput t: f32[n]\nscore = score + t[n]\nmask = kv < n") == ["division-by-zero"]
    assert faults_of("input t: f64[heads]\nscore = score + t[h]") == ["unknown-type"]


# The canonical name.

ALIBI = "learned {0}: f32[heads]\nconst {1} = {2}\nlet {3} = {0}[h] * (q - kv)\nscore = score + {3}\nmask = kv > qpos - {1}"


def test_the_canonical_name_does_not_depend_on_names() -> None:
    one = canonical(spec_of(ALIBI.format("slopes", "window", 3, "x")))
    other = read_spec("attention other\nhead_dim   64 # blank\n" + ALIBI.format("m", "w", "1 + 2", "y"))
    assert one == canonical(other)


@pytest.mark.parametrize(
    "changed",
    [
        HEAD.replace("64", "128") + ALIBI.format("m", "w", 3, "y"),
        HEAD + "group 2\n" + ALIBI.format("m", "w", 3, "y"),
        HEAD + "dtype fp16\n" + ALIBI.format("m", "w", 3, "y"),
        HEAD + "varlen\n" + ALIBI.format("m", "w", 3, "y"),
        HEAD + "scale 1.0\n" + ALIBI.format("m", "w", 3, "y"),
        HEAD + "sink = 1\n" + ALIBI.format("m", "w", 3, "y"),
        HEAD + ALIBI.format("m", "w", 4, "y"),
        HEAD + ALIBI.format("m", "w", 3, "y").replace("f32", "bf16"),
        HEAD + ALIBI.format("m", "w", 3, "y").replace("f32[heads]", "f32[heads] in 0..1"),
        HEAD + ALIBI.format("m", "w", 3, "y").replace("learned", "input"),
        HEAD + ALIBI.format("m", "w", 3, "y").replace("q - kv", "kv - q"),
        HEAD + ALIBI.format("m", "w", 3, "y") + "\nscore = score + 0.0",
    ],
)
def test_the_canonical_name_depends_on_all_that_is_meant(changed: str) -> None:
    assert canonical(read_spec(changed)) != canonical(spec_of(ALIBI.format("m", "w", 3, "y")))


def test_an_override_changes_the_canonical_name_as_the_file_would() -> None:
    given = spec_of(ALIBI.format("m", "w", 3, "y"), w=9)
    assert canonical(given) == canonical(spec_of(ALIBI.format("m", "w", 9, "y")))
    assert canonical(given) != canonical(spec_of(ALIBI.format("m", "w", 3, "y")))


def test_zero_and_minus_zero_are_different_constants() -> None:
    both = spec_of("score = (score + 0.0) * -0.0")
    assert canonical(both) != canonical(spec_of("score = (score + -0.0) * 0.0"))


# Masks that hide everything.


@pytest.mark.parametrize(
    "mask", ["false", "kv < 0", "kv >= len_kv", "q == len_q", "kv < q and kv > q",
             "kv <= qpos and kv > qpos + 1", "not kv >= 0", "causal and kv < -5", "kv < 3 and kv > 4 and causal"],
)  # fmt: skip
def test_a_mask_that_hides_every_key_is_refused(mask: str) -> None:
    assert faults_of(f"mask = {mask}") == ["mask-hides-every-key"]


@pytest.mark.parametrize("mask", ["true", "kv < 3", "kv == len_kv - 1", "kv < q", "causal and kv >= qpos", "kv < 0 or causal"])
def test_a_mask_that_shows_some_key_is_not_refused(mask: str) -> None:
    spec_of(f"mask = {mask}")


def test_a_choice_on_a_constant_is_made() -> None:
    assert spec_of("const n = 3\nmask = causal if n > 2 else kv < n").mask == spec_of("mask = causal").mask
    assert spec_of("mask = 1 < 2").mask == Truth(True)
    assert isinstance(spec_of("score = 1.0 if q < kv else 2").score, Select)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f(x) = f(x)\nscore = f(score)", "recursive-def"),
        ("def f(x) = g(x)\ndef g(x) = f(x)\nscore = f(score)", "unknown-name"),
        ("def f(kv) = kv\nscore = f(score)", "name-taken"),
        ("let f = 3\ndef f(x) = x\nscore = f(score)", "name-taken"),
        ("let f = 1 + true\nscore = f(score)", "kind-mismatch"),
    ],
)
def test_a_faulty_name_is_told_of_once(text: str, name: str) -> None:
    assert faults_of(text) == [name]
