"""Files that mean harm, or are broken beyond a typing error: an error, soon, and nothing else."""

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnspec import variants
from attnspec.language.diagnostics import SpecError
from attnspec.language.limits import MAX_FAULTS, MAX_FILE
from attnspec.language.load import read_spec
from attnspec.language.parse import parse

HEAD = "attention x\nhead_dim 64\n"
SECONDS = 1.0


@contextmanager
def refused_soon(name: str) -> Iterator[None]:
    """The block raises a fault of this name within a second of processor time, garbage that other tests left not counted."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        with pytest.raises(SpecError) as caught:
            yield
        taken = time.process_time() - started
    finally:
        gc.enable()
    assert name in {item.name for item in caught.value.diagnostics}, str(caught.value)[:500]
    assert taken < SECONDS


@pytest.fixture(scope="module", autouse=True)
def warm_parser() -> None:
    read_spec(HEAD + "mask = causal\n")


DEEP = 10_000
LARGE = {
    "brackets": ("nested-too-deep", "score = " + "(" * DEEP + "score" + ")" * DEEP),
    "open brackets": ("nested-too-deep", "score = " + "(" * DEEP),
    "indices": ("nested-too-deep", "score = " + "a[" * DEEP),
    "signs": ("nested-too-deep", "score = " + "-" * 10_000 + "score"),
    "nots": ("nested-too-deep", "mask = " + "not " * 3_000 + "true"),
    "a sum": ("nested-too-deep", "score = score" + " + 1" * 3_000),
    "a long sum": ("statement-too-long", "score = score" + " + 1" * 10_000),
    "choices": ("nested-too-deep", "score = " + "1 if q < 2 else " * 900 + "1"),
    "a chain": ("nested-too-deep", "mask = q" + " < kv" * 2_500),
    "many words": ("file-too-large", "mask = causal\n" * 20_000),
    "many bytes": ("file-too-large", "# " + "x" * MAX_FILE),
    "a wide call": ("nested-too-deep", f"let a = min({', '.join(['q'] * 4_000)})"),
    "doubling names": ("expression-too-large", "let x0 = q\n" + "\n".join(f"let x{n + 1} = x{n} + x{n}" for n in range(90))),
    "doubling calls": (
        "too-much-to-expand",
        "def f0(x) = 1\n" + "\n".join(f"def f{n + 1}(x) = f{n}(1) + f{n}(2)" for n in range(60)) + "\nscore = f60(1)",
    ),
    "a long name": ("name-too-long", f"let {'a' * 5_000} = 1"),
    "a long number": ("integer-out-of-range", f"score = {'9' * 10_000}"),
    "a long fraction": ("float-out-of-range", f"score = {'9' * 10_000}.0"),
    "a large width": ("duplicate-statement", f"head_dim {'9' * 5_000}"),
    "a large shift": ("shift-out-of-range", "const n = 1 << 2000000000\nmask = kv < n"),
    "a large product": ("integer-out-of-range", "const a = 2000000000\nconst b = a * a * a"),
    "axes": ("too-many-axes", f"input t: f32[{', '.join(['2'] * 5_000)}]"),
    "many faults": ("unknown-name", "\n".join(f"score = score + x{n}" for n in range(900))),
    "many lines": ("file-too-large", "\n".join(f"score = score + x{n}" for n in range(5_000))),
    "many bad lines": ("unknown-statement", "\n".join("nonsense" for _ in range(900))),
    "repeated scores": ("nested-too-deep", "\n".join("score = score + 1" for _ in range(900))),
    "nul": ("control-character", "score = \0"),
    "an escape": ("control-character", "# \x1b[31m"),
    "other digits": ("not-ascii", "score = \u0663"),
    "a lookalike name": ("not-ascii", "let \u0430 = 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", LARGE)
def test_a_file_with_too_much_is_refused_within_a_second(what: str) -> None:
    name, text = LARGE[what]
    with refused_soon(name):
        read_spec(f"{HEAD}{text}\n")


TOWERS = {
    "remainders": "{} % 97",
    "remainders of sums": "({} % 97 + q)",
    "quotients": "({} // 2 + q)",
    "shifts": "(({} >> 1) + q)",
    "bits": "(({} & 63) + q)",
    "distances": "abs({} - 3)",
    "choices": "({} if q > 3 else kv + 7)",
}


@pytest.mark.parametrize("floor", TOWERS)
def test_a_tower_of_operators_is_read_within_two_seconds(floor: str) -> None:
    text = "kv"
    for _ in range(45):
        text = TOWERS[floor].format(text)
    started = time.process_time()
    read_spec(f"{HEAD}mask = {text} < kv + 3\n")
    assert time.process_time() - started < 2 * SECONDS


def test_faults_are_counted_and_cut() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(HEAD + "\n".join(f"score = score + x{n}" for n in range(500)))
    assert len(caught.value.diagnostics) == MAX_FAULTS


@pytest.mark.parametrize(
    ("data", "name"),
    [(b"\xff\xfe\x00", "not-utf-8"), (b"attention x\n\xc3(", "not-utf-8"), (b"#" * (MAX_FILE + 2), "file-too-large"),
     (b"", "attention-not-first")],
)  # fmt: skip
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / "x.attn"
    path.write_bytes(data)
    with refused_soon(name):
        read_spec(path)


@pytest.mark.parametrize("path", ["no/such/file.attn", "/", "a\0b.attn", "x" * 5000, ""])
def test_a_path_that_cannot_be_read_is_an_error_of_the_file(path: str) -> None:
    with refused_soon("cannot-read"):
        read_spec(path)


def test_a_text_too_long_for_a_path_is_a_text() -> None:
    with refused_soon("name-too-long"):
        read_spec("attention " + "x" * 5000)


def test_a_byte_order_mark_before_a_file_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "x.attn"
    path.write_bytes(b"\xef\xbb\xbf" + f"{HEAD}mask = causal\n".encode())
    assert read_spec(path) == read_spec(HEAD + "mask = causal\n")


@pytest.mark.parametrize("text", ["attention \ud800\nhead_dim 64\n", "\ufeffattention x\nhead_dim 64\n"])
def test_an_error_can_be_printed_whatever_characters_it_is_about(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(text)
    assert str(caught.value).replace("\n", "").isprintable()


def test_an_override_with_an_odd_name_is_told_of_in_plain_characters() -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(HEAD, {"\x1b[31mn": 3})
    assert str(caught.value).replace("\n", "").isprintable()


def test_an_endless_file_is_read_to_the_limit_only() -> None:
    with refused_soon("file-too-large"):
        read_spec(Path("/dev/zero"))


def test_line_ends_and_tabs_of_other_systems_are_blanks() -> None:
    assert read_spec(HEAD.replace("\n", "\r\n") + "mask\t=\tcausal\r\n") == read_spec(HEAD + "mask = causal\n")


def test_a_comment_may_hold_any_script() -> None:
    read_spec(HEAD + "mask = causal  # nur frühere Schlüssel, 因果\n")


PIECES = st.sampled_from(
    [*"()[]+-*/%&|^<>=,:.!?;@#\\'\"~ \n", "score", "mask", "let x", "def f(x)", "input t: f32", "kv", "q", "1", "2.5", "if",
     "else", "and", "or", "not", "none", "is", "in", "..", "sorted", "require", "causal", "window", "softcap", "[h]", "=", "=="]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map(" ".join))
def test_any_text_is_a_spec_or_an_error_of_the_spec(text: str) -> None:
    try:
        read_spec(f"{HEAD}{text}\n")
    except SpecError as error:
        assert error.diagnostics and str(error)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(variants.names()), st.data())
def test_a_damaged_variant_is_a_spec_or_an_error_of_the_spec(name: str, data: st.DataObject) -> None:
    text = variants.path(name).read_text("utf-8")
    at = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 5))
    try:
        read_spec(text[:at] + data.draw(PIECES) + text[at + length :] + "\n")
    except SpecError as error:
        assert all(item.span.start >= 0 for item in error.diagnostics) and str(error)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_characters_are_a_tree_or_an_error_of_the_file(text: str) -> None:
    try:
        parse(text)
    except SpecError as error:
        assert str(error).isprintable() or "\n" in str(error)


def test_reading_a_spec_imports_neither_torch_nor_cutlass_nor_numpy() -> None:
    code = (
        "import sys; from attnspec.language.load import read_spec; from attnspec import variants;"
        "read_spec(variants.path('gemma2_local'));"
        "print(sorted({'torch', 'cutlass', 'numpy', 'networkx', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("blank", ["\t", "\f", "\t \t"])
def test_blanks_before_a_fault_show_as_spaces_and_the_carets_stay_below_it(blank: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(f"{HEAD}mask ={blank}kv <= widnow\n")
    lines = str(caught.value).split("\n")
    at = next(number for number, line in enumerate(lines) if "^" in line)
    assert f"mask ={' ' * len(blank)}kv <= widnow" in lines[at - 1]
    assert lines[at - 1][lines[at].index("^") :] == "widnow"
