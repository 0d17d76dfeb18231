"""A kernel is found again by what its source means, whatever the file calls things."""

from dataclasses import replace

import pytest
from attnspec.backends.emitted import Emitted, Module
from attnspec.lowering.analysis.analyse import analyse
from attnspec.runtime.source_meaning import meaning_of
from attnspec.runtime.stored_binary import key_of

from attnspec import stages
from attnspec.language.parse import parse

TEXT = '"""One."""\n\ndef score(at):\n    """Of one."""\n    return at.u_a + 2 * d_u_a * at.u_b  # one.attn:3:4\n'


def means(text: str, with_lines: bool = True) -> str:
    return meaning_of(Module("forward", text), with_lines)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("One", "Two"),
        TEXT.replace("one", "two"),
        TEXT.replace("u_a", "u_slope"),
        TEXT.replace("u_a", "u_c").replace("u_b", "u_a").replace("u_c", "u_b"),
    ],
)
def test_what_people_read_and_names_of_the_file_mean_nothing(other: str) -> None:
    assert means(other) == means(TEXT)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("2", "3"),
        TEXT.replace("+", "-"),
        TEXT.replace("at.u_b", "at.u_a"),
        TEXT.replace("d_u_a", "d_u_b"),
        TEXT.replace("d_u_a", "u_a"),
        TEXT.replace("score", "mask"),
        TEXT + "\nx = 1\n",
    ],
)
def test_all_else_means_something(other: str) -> None:
    assert means(other, with_lines=False) != means(TEXT, with_lines=False)


def test_lines_count_where_line_tables_name_them() -> None:
    other = TEXT.replace("\n\ndef", "\n\n\ndef")
    assert means(other) != means(TEXT)
    assert means(other, with_lines=False) == means(TEXT, with_lines=False)


def emitted(name: str, file: str) -> Emitted:
    """A kernel of a variant whose names all begin alike, from a file of that name."""
    text = (
        f"attention {name}\nhead_dim 64\nconst {name}_w = 128\nlearned {name}_bias: f32[heads]\n"
        f"score = score + {name}_bias[h]\nmask = kv <= qpos and kv > qpos - {name}_w\n"
    )
    analysed = analyse(stages.check(parse(text, file)))
    return stages.emit(analysed, stages.place(stages.draw(analysed), analysed))


@pytest.mark.slow
def test_a_renamed_file_variant_constant_or_tensor_finds_its_kernel() -> None:
    first = emitted("one", "one.attn")
    keys = {key_of(made, False) for made in (first, emitted("one", "moved.attn"), emitted("two", "two.attn"))}
    assert len(keys) == 1
    (module,) = first.modules
    changed = replace(first, modules=(replace(module, text=module.text.replace(" 128", " 64")),))
    assert key_of(changed, False) not in keys
