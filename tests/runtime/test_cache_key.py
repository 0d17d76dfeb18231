import pytest
from attnspec.runtime import cache_key as keys
from attnspec.runtime.cache_key import cache_key
from attnspec.runtime.canonical import canonical

import attnspec

TEXT = """attention first
head_dim 64
const window = 32
learned slopes: f32[heads]
let gap = qpos - kv
score = score - slopes[h] * gap
mask = gap >= 0 and gap < window
"""


def meaning(text, **constants):
    return canonical(attnspec.build(text, **constants).spec)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first", "second"),
        ("slopes", "alibi"),
        ("gap", "distance"),
        ("window", "width"),
        ("\nmask", "  # a comment\n\nmask"),
        ("const window = 32\n", "const window = 16\nconst twice = window * 2\n"),
        ("gap < window", "gap < 32"),
        ("gap >= 0 and gap", "(gap >= 0) and (qpos - kv)"),
    ],
)
def test_names_spacing_and_ways_of_writing_do_not_change_the_key(old, new):
    text = TEXT.replace(old, new)
    if "twice" in new:
        text = text.replace("gap < window", "gap < twice").replace("const twice = window * 2", "const twice = 32")
    assert text != TEXT
    assert meaning(text) == meaning(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("head_dim 64", "head_dim 128"),
        ("head_dim 64", "head_dim 64\ngroup 2"),
        ("head_dim 64", "head_dim 64\ndtype fp16"),
        ("head_dim 64", "head_dim 64\nscale 1.0"),
        ("head_dim 64", "head_dim 64\nvarlen"),
        ("learned", "input"),
        ("f32[heads]", "bf16[heads]"),
        ("f32[heads]", "f32[heads + 1]"),
        ("window = 32", "window = 33"),
        (">= 0", "> 0"),
        ("score -", "score +"),
        ("mask = gap", "sink = slopes[h]\nmask = gap"),
    ],
)
def test_what_changes_the_numbers_changes_the_key(old, new):
    assert meaning(TEXT.replace(old, new, 1)) != meaning(TEXT)


def test_an_override_is_the_same_as_the_constant_written():
    assert meaning(TEXT, window=64) == meaning(TEXT.replace("= 32", "= 64"))


def test_target_options_and_versions_are_in_the_key(monkeypatch):
    spec = attnspec.build(TEXT).spec
    found = [
        cache_key(spec, "sm100", {}),
        cache_key(spec, "sm90", {}),
        cache_key(spec, "sm100", {"pass": "backward"}),
        cache_key(spec, "sm100", {}, ["nvidia-cutlass-dsl"]),
    ]
    monkeypatch.setattr(keys, "own_digest", lambda: "another")
    found.append(cache_key(spec, "sm100", {}))
    assert len(set(found)) == len(found)
