"""Bad messages that people met in other systems (pytorch #133254, FA #1909 and #1918, cutlass #2932 and #2630)."""

import pytest

from attnspec.language.diagnostics import SpecError
from attnspec.language.load import read_spec

FILE = "attention x\nhead_dim {head_dim}\nconst window = {window}\n{lines}\n"
CASES = {
    "an unknown name": ("score = scroe * 2", "unknown-name", 4, 9, "did you mean `score`?"),
    "a missing parenthesis": ("score = softcap(score, 30", "missing-parenthesis", 4, 16, "add `)`"),
    "a query compared with a truth": ("mask = q <= (kv < 3)", "kind-mismatch", 4, 13, "1 if ... else 0"),
    "a bias that is a condition": ("input a: bool[heads]\nscore = score + a[h]", "kind-mismatch", 5, 17, "1 if ... else 0"),
    "a softcap of zero": ("score = softcap(score, 0)", "argument-out-of-range", 4, 24, None),
    "a negative softcap": ("score = softcap(score, -50.0)", "argument-out-of-range", 4, 24, None),
    "a negative window": ("mask = window(-1, 0)", "argument-out-of-range", 4, 15, None),
    "a bias without a shape": ("learned bias: f32\nscore = score + bias[h, q, kv]", "scalar-indexed", 5, 17, "declare its shape"),
    "a bias without a type": ("learned bias", "missing-type", 4, 13, "NAME: f32[heads]"),
    "a type of 64 bits": ("input bias: f64[heads]\nscore = score + bias[h]", "unknown-type", 4, 13, None),
}


@pytest.mark.parametrize("what", CASES)
def test_a_known_mistake_is_named_where_it_is(what: str) -> None:
    lines, name, line, column, help = CASES[what]
    with pytest.raises(SpecError) as caught:
        read_spec(FILE.format(head_dim=64, window=4, lines=lines).replace("const window = 4\n", "# a comment\n"))
    (found,) = caught.value.diagnostics
    assert (found.name, found.span.line, found.span.column) == (name, line, column), str(found)
    assert help is None or help in found.help
    assert f"--> <text>:{line}:{column}" in str(found)


def test_a_head_of_twelve_is_told_the_widths_near_it() -> None:
    with pytest.raises(SpecError, match=r"multiple of 8 in 8\.\.256, not 12[\s\S]*the nearest width is 8 or 16"):
        read_spec(FILE.format(head_dim=12, window=4, lines=""))


def test_a_negative_window_written_by_hand_is_refused() -> None:
    with pytest.raises(SpecError, match="mask-hides-every-key"):
        read_spec(FILE.format(head_dim=64, window=-5, lines="mask = kv <= qpos and kv > qpos - window"))
    with pytest.raises(SpecError, match="mask-hides-every-key"):
        read_spec(FILE.format(head_dim=64, window=5, lines="mask = kv <= qpos and kv > qpos - window"), {"window": 0})
