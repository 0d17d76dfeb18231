"""A race without a GPU: who takes part and what is said, visible scores, tables and pictures."""

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec.bench.contenders import Contender, contenders
from attnspec.bench.race import Race, Result, host_clock, race, run
from attnspec.bench.report import as_dict, draw, head_of, rows_of
from attnspec.bench.visible import visible_scores

CAUSAL = "attention causal\nhead_dim 64\nlearned w: f32[heads]\nscore = score * w[h]\nmask = causal\n"


def raced(text: str, *, backward: bool = False) -> Race:
    attention = attnspec.build(text)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 2, 40, 60))
    return race(attention, inputs, backward=backward, clock=host_clock, is_compiled=False)


@pytest.mark.filterwarnings("ignore")
def test_who_cannot_express_the_variant_says_so_and_the_others_agree_with_ours():
    found = {one.name: one for one in raced(CAUSAL).results}
    assert found["FA4"].reason == "flash_attn_func has no argument for its score statements"
    assert found["cuDNN"].reason == "scaled_dot_product_attention has no argument for its score statements"
    flex = found["FlexAttention"]
    assert flex.far is not None, flex.reason
    assert flex.is_right
    assert flex.forward is not None
    assert found["attnspec"].forward is not None


def test_what_a_peer_cannot_express_is_said_whether_or_not_it_is_installed(monkeypatch):
    attention = attnspec.build(CAUSAL)
    inputs = draw_inputs(attention.spec, Shape(1, 2, 2, 40, 60))
    said = {one.name: one.reason for one in contenders(attention, inputs)}
    monkeypatch.setattr("attnspec.bench.contenders.find_spec", lambda name: None)
    alone = {one.name: one.reason for one in contenders(attention, inputs)}
    assert alone["FA4"] == said["FA4"] == "flash_attn_func has no argument for its score statements"
    assert alone["FlexAttention FLASH"] == "its FLASH backend needs flash-attn-4, which is not installed"


@pytest.mark.filterwarnings("ignore")
def test_a_backward_is_timed_and_who_has_none_is_a_row_with_what_it_said():
    found = {one.name: one for one in raced(CAUSAL, backward=True).results}
    assert found["attnspec"].backward is not None
    assert found["FlexAttention"].reason.startswith("fails: NotImplementedError: FlexAttention does not support backward on CPU")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mask = causal\n", 2 * 3 * sum(range(21, 61))),
        ("mask = kv <= q + h\n", 2 * (sum(range(1, 41)) + sum(range(2, 42)) + sum(range(3, 43)))),
        ("input n: i32[batch]\nmask = kv < n[b]\n", 3 * 40 * (7 + 11)),
        ("", 2 * 3 * 40 * 60),
    ],
)
def test_visible_scores_are_counted(text, expected):
    spec = attnspec.build(f"attention counted\nhead_dim 16\n{text}").spec
    inputs = draw_inputs(spec, Shape(2, 3, 3, 40, 60))
    if "n" in inputs.tensors:
        inputs.tensors["n"].copy_(torch.tensor([7, 11]))
    assert visible_scores(spec, inputs) == expected


def test_visible_scores_of_packed_sequences_are_those_of_each():
    spec = attnspec.build("attention packed\nhead_dim 16\nvarlen\nmask = causal\n").spec
    inputs = draw_inputs(spec, Shape(3, 2, 1, 5, 5))
    lengths = [one.diff().tolist() for one in inputs.keywords.values()]
    expected = sum(max(0, row + 1 + keys - rows) for rows, keys in zip(*lengths, strict=True) for row in range(rows))
    assert visible_scores(spec, inputs) == 2 * expected


def test_a_peer_that_computes_something_else_is_shown_as_such():
    inputs = draw_inputs(attnspec.build(CAUSAL).spec, Shape(1, 2, 2, 4, 4))
    result, _ = run(Contender("other", lambda: inputs.q * 0.5), [], inputs, inputs.q, host_clock)
    assert not result.is_right
    races = Race(attnspec.build(CAUSAL).spec, 10, 16, (1e9, 2e9), (Result("attnspec", 1e-3), result))
    assert "computes something else: off by 0.5 of the largest" in rows_of(races)[1][-1]


def test_a_peer_that_fails_is_a_row_with_what_it_said():
    def fails():
        raise RuntimeError("no kernel\nfor this")

    inputs = draw_inputs(attnspec.build(CAUSAL).spec, Shape(1, 2, 2, 4, 4))
    result, out = run(Contender("other", fails), [], inputs, None, host_clock)
    assert (result.reason, result.forward, out) == ("fails: RuntimeError: no kernel for this", None, None)


def made() -> Race:
    results = (Result("attnspec", 1e-3, 2e-3), Result("FA4", 2e-3, 3e-3, 0.001), Result("cuDNN", reason="not installed"))
    return Race(attnspec.build(CAUSAL).spec, 100, 400, (1e12, 2e12), results)


def test_figures_are_those_of_the_counted_products():
    assert head_of(made()) == ("", "forward ms", "TFLOP/s", "ours / its", "backward ms", "TFLOP/s", "ours / its", "")
    assert rows_of(made()) == [
        ("attnspec", "1.000", "1000", "", "2.000", "1000", "", ""),
        ("FA4", "2.000", "500", "2.00", "3.000", "667", "1.50", ""),
        ("cuDNN", "-", "-", "-", "-", "-", "-", "not installed"),
    ]
    row = as_dict(made())["results"][1]
    assert (row["forward"]["ratio"], row["backward"]["tflops"]) == (2.0, pytest.approx(666.7, abs=0.1))


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw([made(), made()], "some GPU", tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
