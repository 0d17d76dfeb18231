import pytest

from attnspec import stages
from attnspec.bench.recognise import Known, recognise

HEAD = "attention seen\nhead_dim 64\n"


def known(text: str):
    return recognise(stages.read(HEAD + text))


@pytest.mark.parametrize(
    ("text", "left", "right", "is_top_left"),
    [
        ("", None, None, False),
        ("mask = causal\n", None, 0, False),
        ("mask = qpos >= kv\n", None, 0, False),
        ("mask = not kv > qpos\n", None, 0, False),
        ("mask = kv < q + 1\n", None, 0, True),
        ("mask = window(5, none)\n", 5, None, False),
        ("mask = qpos - kv < 8 and kv - qpos <= 3\n", 7, 3, False),
        ("mask = kv <= q and kv >= q - 4 and kv > q - 9\n", 4, 0, True),
    ],
)
def test_a_band_is_told_however_it_is_written(text, left, right, is_top_left):
    assert known(text) == Known(left, right, is_top_left, scale=0.125)


@pytest.mark.parametrize("text", ["score = softcap(score, 30.0)\n", "score = tanh(score / 30.0) * 30.0\n"])
def test_a_soft_cap_is_told_however_it_is_written(text):
    assert known(text) == Known(softcap=30.0, scale=0.125)


def test_a_sink_a_head_and_a_scale_are_told():
    assert known("learned s: f32[heads]\nsink = s[h]\nscale 0.5\n") == Known(sink="s", scale=0.5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("score = score + 1.0\n", "its score statements"),
        ("score = 30.0 * tanh(score / 20.0)\n", "its score statements"),
        ("mask = kv % 2 == 0\n", "its mask, which is not a band along the diagonal"),
        ("mask = kv <= 2 * q\n", "its mask, which is not a band along the diagonal"),
        ("mask = kv <= q and kv >= qpos - 4\n", "its mask, with one end aligned at the start and one at the end"),
        ("input s: f32[heads]\nsink = 2.0 * s[h]\n", "its sink, which is not a tensor's element a head"),
        ("input s: f32\nscale s\n", "a scale that is not a constant"),
    ],
)
def test_what_has_no_argument_is_named(text, why):
    assert known(text) == why
