"""The emitted text itself: what it holds, what it leaves out, and that hostile files put no code in it."""

import ast

import pytest
import torch
from attnspec.backends.layout import Layout, Segment
from attnspec.backends.reference.tiles import key_tiles, query_tiles
from attnspec.runtime.load_module import load_module

import attnspec
from attnspec.stages import emit_reference
from tests.golden_text import check_golden
from tests.small_constants import VARIANTS, path_of

ODD_NAMES = ("exec", "import_", "class_", "torch", "tensor", "at", "scale_", "range", "__builtins__", "T" * 62, "self")


def emitted(text, name="forward"):
    return emit_reference(attnspec.build(text).analysed).module(name)


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("variant", ["gemma2_local", "gpt_oss", "relative_bias"])
def test_emitted_text_is_the_golden_one(variant, name):
    text = emit_reference(attnspec.build(path_of(variant)).analysed).module(name).text
    check_golden(f"reference_{name}_{variant}.txt", text)


@pytest.mark.parametrize("variant", VARIANTS)
def test_emitted_text_reads_well(variant):
    for module in emit_reference(attnspec.build(path_of(variant)).analysed).modules:
        assert max(len(line) for line in module.text.splitlines()) <= 180
        assert all(node.name.isidentifier() for node in ast.walk(ast.parse(module.text)) if isinstance(node, ast.FunctionDef))


def test_what_a_variant_lacks_is_not_in_its_text():
    text = emitted("attention plain\nhead_dim 16\n").text
    assert "is_visible" not in text
    assert "sink" not in text
    assert "change_score" not in text


def test_emitted_text_does_not_depend_on_where_the_file_lies(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    texts = []
    for folder in folders:
        folder.mkdir()
        (folder / "x.attn").write_text("attention x\nhead_dim 16\nlet gap = q - kv\nmask = gap > 0 and gap % 3 == 0\n")
        texts.append(emitted(folder / "x.attn").text)
    assert texts[0] == texts[1]


def test_a_line_of_the_text_leads_back_to_its_line_in_the_file():
    module = emitted("attention spans\nhead_dim 16\nlet gap = q - kv\nmask = gap > 0 and gap % 3 == 0\n")
    lines = module.text.splitlines()
    found = {lines[number - 1].split()[0]: span.line for number, span in module.spans.items()}
    assert found["u_gap"] == 3
    assert found["score"] == 4


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_persons_names_cannot_take_the_place_of_the_texts_own(name):
    attention = attnspec.build(
        f"attention {name}\nhead_dim 16\nlearned {name}: f32[heads]\nlet {name}_2 = {name}[h] * 2.0\nscore = score + {name}_2\n"
    )
    q = torch.zeros(1, 2, 1, 16, dtype=torch.bfloat16)
    _, lse = attention(q, q, q, return_lse=True, **{name: torch.tensor([1.0], requires_grad=True)})
    lse.sum().backward()
    assert lse[0, 0].tolist() == pytest.approx([2 + 0.6931472] * 2)


def visited(text, len_q, len_kv):
    """(query tile, key tile, is full) of every tile that the forward visits."""
    live = load_module(emitted(text), "reference")
    segment = Segment(0, 0, 0, len_q, len_kv, 0, 0, len_q, len_kv)
    tiles = []
    for rows in query_tiles(Layout(1, 1, 1, False, (segment,), len_q, len_kv), segment, 128):
        t = live.name_tensors(())
        for at in key_tiles(rows, 128, live.seen_keys(rows.wide, t), live.hidden_keys(rows.wide, t)):
            tiles.append((rows.first_row // 128, at.first_key // 128, at.is_full))
    return tiles


def test_tiles_that_a_mask_empties_are_not_visited_and_full_ones_run_no_mask():
    assert visited("attention causal\nhead_dim 8\nmask = causal\n", 256, 384) == [
        (0, 0, True),
        (0, 1, False),
        (1, 0, True),
        (1, 1, True),
        (1, 2, False),
    ]


def test_the_last_tile_of_keys_is_never_full():
    assert visited("attention plain\nhead_dim 8\n", 128, 200) == [(0, 0, True), (0, 1, False)]
