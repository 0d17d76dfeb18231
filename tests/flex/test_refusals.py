"""What cannot be traced is an error at the line of the caller that does it, with what to write instead."""

import math
import random
import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy
import pytest
import torch
import torch.nn.functional as F

import attnspec

TABLE = torch.rand(8)
LIST = [1, 2, 3]
GENERATOR = numpy.random.default_rng(0)


def branch(score, b, h, q_idx, kv_idx):
    if q_idx > kv_idx:  # here
        return score
    return score * 2


def choice(score, b, h, q_idx, kv_idx):
    return score if h == 0 else score * 2  # here


def loop(score, b, h, q_idx, kv_idx):
    while kv_idx > 0:  # here
        kv_idx = kv_idx - 1
    return score


def chain(score, b, h, q_idx, kv_idx):
    return torch.where(0 < q_idx <= 5, score, 0.0)  # here


def both(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx > 2 and kv_idx > 2, score, 0.0)  # here


def either(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx > 2 or kv_idx > 2, score, 0.0)  # here


def opposite(score, b, h, q_idx, kv_idx):
    return torch.where(not q_idx > 2, score, 0.0)  # here


def largest(score, b, h, q_idx, kv_idx):
    return max(score, 0.0)  # here


def of_math(score, b, h, q_idx, kv_idx):
    return math.exp(score)  # here


def item(score, b, h, q_idx, kv_idx):
    return score * q_idx.item()  # here


def of_list(score, b, h, q_idx, kv_idx):
    return score * LIST[h]  # here


def of_range(score, b, h, q_idx, kv_idx):
    for _ in range(kv_idx):  # here
        score = score + 1
    return score


def in_set(score, b, h, q_idx, kv_idx):
    return score if h in {1, 2} else 0.0  # here


def of_captured(score, b, h, q_idx, kv_idx):
    return score * TABLE[0].item()  # here


def of_truth(score, b, h, q_idx, kv_idx):
    if TABLE.max() > 2:  # here
        return score
    return score * 2


def sine(score, b, h, q_idx, kv_idx):
    return score + torch.sin(q_idx * 0.1)  # here


def exact_gelu(score, b, h, q_idx, kv_idx):
    return F.gelu(score)  # here


def half(score, b, h, q_idx, kv_idx):
    return (score * 2).half()  # here


def in_place(score, b, h, q_idx, kv_idx):
    return score.mul_(2)  # here


def written(score, b, h, q_idx, kv_idx):
    score[0] = 1.0  # here
    return score


def powers(score, b, h, q_idx, kv_idx):
    return score ** (q_idx * 0.5)  # here


def float_index(score, b, h, q_idx, kv_idx):
    return score + TABLE[h / 2]  # here


def many_indices(score, b, h, q_idx, kv_idx):
    return score + TABLE[h, q_idx]  # here


def outside(score, b, h, q_idx, kv_idx):
    return score + TABLE[9]  # here


def by_slice(score, b, h, q_idx, kv_idx):
    return score + TABLE[:q_idx].sum()  # here


def repeated(score, b, h, q_idx, kv_idx):
    return score + TABLE.repeat(99)[h]  # here


def long_any(score, b, h, q_idx, kv_idx):
    return torch.where((torch.arange(1000) == kv_idx).any(), score, 0.0)  # here


def divided(score, b, h, q_idx, kv_idx):
    return score + kv_idx // (q_idx - 3)  # here


def shifted(score, b, h, q_idx, kv_idx):
    return score + (kv_idx << q_idx)  # here


def of_complex(score, b, h, q_idx, kv_idx):
    return score + torch.zeros(4, dtype=torch.complex64)[h]  # here


def gone(score, b, h, q_idx, kv_idx):  # here
    score + 1


def not_one(score, b, h, q_idx, kv_idx):  # here
    return TABLE


def drawn(score, b, h, q_idx, kv_idx):
    return score * (1 + torch.rand(()))  # here


def drawn_table(score, b, h, q_idx, kv_idx):
    return score + torch.randn(4)[h]  # here


def drawn_alike(score, b, h, q_idx, kv_idx):
    return score * torch.rand_like(score)  # here


def drawn_in_place(score, b, h, q_idx, kv_idx):
    return score * torch.empty(()).uniform_()  # here


def drawn_privately(score, b, h, q_idx, kv_idx):
    return score * torch.randint(9, (), generator=torch.Generator())  # here


def drawn_shape(score, b, h, q_idx, kv_idx):
    return torch.rand(1)  # here


def drawn_by_method(score, b, h, q_idx, kv_idx):
    return score.sigmoid().bernoulli()  # here


def dropped(score, b, h, q_idx, kv_idx):
    return F.dropout(score, 0.5)  # here


def drawn_by_python(score, b, h, q_idx, kv_idx):  # here
    return score * random.random()


def drawn_by_numpy(score, b, h, q_idx, kv_idx):  # here
    return score * numpy.random.rand()


def drawn_by_a_generator(score, b, h, q_idx, kv_idx):  # here
    return score * GENERATOR.random()


def tangent(score, b, h, q_idx, kv_idx):
    return torch.tan(score)  # here


def misspelt(score, b, h, q_idx, kv_idx):
    return score.sigmod()  # here


def root_of_numpy(score, b, h, q_idx, kv_idx):
    return score + numpy.sqrt(q_idx)  # here


def most_of_numpy(score, b, h, q_idx, kv_idx):
    return score + numpy.maximum(q_idx, 3)  # here


def of_operator_module(score, b, h, q_idx, kv_idx):
    return score + struct.pack("i", q_idx)  # here


def wrong_keyword(score, b, h, q_idx, kv_idx):
    return torch.clamp(score, minimum=0.0)  # here


def unlike_shapes(score, b, h, q_idx, kv_idx):
    return score + (TABLE + TABLE[:3]).sum()  # here


def no_axis(score, b, h, q_idx, kv_idx):
    return score + (TABLE * 2).sum(5)  # here


def no_axes(score, b, h, q_idx, kv_idx):
    return score + (TABLE * 2).transpose(0, 3)[0]  # here


CASES: dict[Callable[..., object], tuple[str, str]] = {
    branch: ("python-control-flow", "`torch.where(condition, a, b)`"),
    choice: ("python-control-flow", "`torch.where(C, A, B)`"),
    loop: ("python-control-flow", "`for i in range(n)`"),
    chain: ("python-control-flow", "`(a <= b) & (b < c)`"),
    both: ("python-control-flow", "`a & b`"),
    either: ("python-control-flow", "`a | b`"),
    opposite: ("python-control-flow", "`~a`"),
    largest: ("python-control-flow", "`torch.maximum(a, b)`"),
    of_math: ("not-one-number", "torch.exp"),
    item: ("not-one-number", "leave it out"),
    of_list: ("not-one-number", "a tensor"),
    of_range: ("not-one-number", "a tensor"),
    in_set: ("not-one-number", "look it up in a tensor"),
    of_captured: ("not-one-number", "leave it out"),
    of_truth: ("python-control-flow", "`torch.where(condition, a, b)`"),
    sine: ("unknown-function", "precompute a table"),
    exact_gelu: ("unknown-function", "approximate='tanh'"),
    half: ("unknown-type", "scores are f32"),
    in_place: ("not-in-place", "write `x = x.mul(...)`"),
    written: ("not-in-place", "torch.where"),
    powers: ("unknown-power", "torch.exp(y * torch.log(x))"),
    float_index: ("index-not-integer", ".to(torch.int32)"),
    many_indices: ("wrong-index-count", ""),
    outside: ("index-out-of-range", ""),
    by_slice: ("slice-not-fixed", ""),
    long_any: ("too-much-to-expand", "compute it before"),
    repeated: ("unknown-function", "capture the result"),
    divided: ("divisor-may-be-zero", "max(x, 1)"),
    shifted: ("shift-out-of-range", "n & 31"),
    of_complex: ("unknown-type", ""),
    gone: ("returns-no-value", "return"),
    not_one: ("returns-no-value", "index it"),
    drawn: ("random-numbers", "capture them as a tensor"),
    drawn_table: ("random-numbers", "capture them as a tensor"),
    drawn_alike: ("random-numbers", "capture them as a tensor"),
    drawn_in_place: ("random-numbers", "capture them as a tensor"),
    drawn_privately: ("random-numbers", "capture them as a tensor"),
    drawn_shape: ("random-numbers", "capture them as a tensor"),
    drawn_by_method: ("random-numbers", "capture them as a tensor"),
    dropped: ("random-numbers", "what is kept"),
    drawn_by_python: ("random-numbers", "capture them as a tensor"),
    drawn_by_numpy: ("random-numbers", "capture them as a tensor"),
    drawn_by_a_generator: ("random-numbers", "capture them as a tensor"),
    tangent: ("unknown-function", "write it by functions that are there"),
    misspelt: ("unknown-function", "there is `sigmoid`"),
    root_of_numpy: ("not-traceable", "functions of torch"),
    most_of_numpy: ("not-traceable", "functions of torch"),
    of_operator_module: ("not-one-number", "a tensor"),
    wrong_keyword: ("not-traceable", ""),
    unlike_shapes: ("shapes-differ", "index the axes"),
    no_axis: ("no-such-axis", ""),
    no_axes: ("no-such-axis", ""),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_it_is_refused_at_its_line(function: Callable[..., object]) -> None:
    name, advice = CASES[function]
    with pytest.raises(attnspec.SpecError) as caught:
        attnspec.from_flex(function, head_dim=64)
    (found,) = caught.value.diagnostics
    text = Path(__file__).read_text()
    assert found.name == name
    assert found.span.source.name == __file__
    assert text.splitlines()[found.span.line - 1].endswith("  # here")
    assert function.__code__.co_firstlineno <= found.span.line <= function.__code__.co_firstlineno + 2
    assert advice in found.help


def test_the_error_shows_the_expression() -> None:
    with pytest.raises(attnspec.SpecError) as caught:
        attnspec.from_flex(branch, head_dim=64)
    shown = re.sub(r" +--> .*:(\d+):(\d+)", r"--> FILE:\2", str(caught.value)).replace("\t", " ")
    assert re.sub(r"(?m)^ *\d* +\|", "|", shown).splitlines() == [
        "error[python-control-flow]: `if` would be decided once, but its condition differs from element to element",
        "--> FILE:8",
        "|",
        "|     if q_idx > kv_idx:  # here",
        "|        ^^^^^^^^^^^^^^ differs from element to element",
        "    = help: compute both sides and choose with `torch.where(condition, a, b)`",
    ]


def test_a_mask_of_floats_is_refused() -> None:
    with pytest.raises(attnspec.SpecError, match="a mask_mod returns a condition, not a float"):
        attnspec.from_flex(None, lambda b, h, q, kv: q * 0.5, head_dim=64)


def test_a_mask_that_hides_every_key_is_refused() -> None:
    with pytest.raises(attnspec.SpecError, match="mask-hides-every-key"):
        attnspec.from_flex(None, lambda b, h, q, kv: (kv < q) & (kv > q), head_dim=64)


def test_a_function_without_a_source_is_refused_by_its_line_alone() -> None:
    made: dict[str, Callable[..., object]] = {}
    exec("\n\ndef rule(b, h, q, kv):\n    return q > kv and kv > 2\n", made)
    with pytest.raises(attnspec.SpecError, match=r"(?s)python-control-flow.*--> <string>:4:"):
        attnspec.from_flex(None, made["rule"], head_dim=64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score_mod": 3}, "score_mod: a function is wanted, got int"),
        ({"dtype": torch.float32}, "dtype: torch.float32, wanted 'bf16' or 'fp16'"),
        ({"head_dim": 12}, "12"),
        (
            {"score_mod": lambda b, h, q, kv: q > kv},
            r"takes \(b, h, q, kv\), .*\(score, b, h, q_idx, kv_idx\); as a mask_mod",
        ),
        (
            {"mask_mod": lambda s, b, h, q, kv: s},
            r"mask_mod: .* with \(b, h, q_idx, kv_idx\); as a score_mod it would fit",
        ),
        ({"score_mod": lambda s: s}, r"score_mod: `flex` takes \(s\), but a score_mod is called with"),
    ],
)
def test_wrong_options_are_errors_that_name_them(options: dict, message: str) -> None:
    with pytest.raises((attnspec.ArgumentError, attnspec.SpecError), match=message):
        attnspec.from_flex(**{"head_dim": 64, **options})


def test_an_error_of_the_function_s_own_stays_what_it_is() -> None:
    with pytest.raises(KeyError):
        attnspec.from_flex(lambda s, b, h, q, kv: s * {}["no"], head_dim=64)
    with pytest.raises(TypeError, match="not supported between"):
        attnspec.from_flex(lambda s, b, h, q, kv: s * ("a" < 1), head_dim=64)  # type: ignore[operator]


def test_a_generator_that_partial_gives_is_watched_too() -> None:
    def scaled(generator, score, b, h, q_idx, kv_idx):
        return score * generator.random()

    with pytest.raises(attnspec.SpecError, match="random-numbers"):
        attnspec.from_flex(partial(scaled, random.Random(0)), head_dim=64)


def test_a_captured_variable_without_a_value_is_no_fault_until_it_is_used() -> None:
    def plain(score, b, h, q_idx, kv_idx):
        return score if True else later

    assert "score = " not in attnspec.from_flex(plain, head_dim=64).text
    later = 1


def test_numbers_of_numpy_are_numbers() -> None:
    size = numpy.int64(3)
    assert "mask = q - kv < 3" in attnspec.from_flex(None, lambda b, h, q, kv: q - kv < size, head_dim=64).text
    assert "score = 2.0 * score" in attnspec.from_flex(lambda s, b, h, q, kv: numpy.float32(2) * s, head_dim=64).text
