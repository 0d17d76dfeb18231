import time

import pytest

from attnspec import variants
from tests.cli.command import GOOD, Attnc


def visible(causal_window: int | None, length: int, tile: int = 128) -> tuple[int, int]:
    """(visited, full) tiles of a causal mask with a window, element by element at the tiles' corners."""
    visited = full = 0
    for q in range(0, length, tile):
        for kv in range(0, length, tile):
            q_last, kv_last = min(q + tile, length) - 1, min(kv + tile, length) - 1
            window = length if causal_window is None else causal_window
            visited += kv <= q_last and kv_last > q - window
            full += kv_last <= q and kv > q_last - window
    return visited, full


@pytest.mark.parametrize(("name", "window"), [("causal", None), ("gemma2_local", 4096), ("gpt_oss", 128)])
@pytest.mark.parametrize("length", [1, 128, 129, 8192, 5000])
def test_tiles_are_counted_as_a_person_would(attnc: Attnc, name: str, window: int | None, length: int) -> None:
    tiles = attnc("explain", name, "--length", str(length), "--json").json["tiles"]
    assert (tiles["visited"], tiles["full"]) == visible(window, length)
    assert tiles["total"] == (-(-length // 128)) ** 2
    assert tiles["needed"] == tiles["visited"]


def test_what_a_kernel_visits_is_told_apart_from_what_the_mask_needs(attnc: Attnc) -> None:
    tiles = attnc("explain", "bigbird", "--shape", "b=1,h=2,hkv=2,q=1024,kv=1024", "--json").json["tiles"]
    assert tiles["needed"] < tiles["visited"] == tiles["total"]
    assert tiles["heads"] == 2


@pytest.mark.parametrize("name", ["causal", "gemma2_local", "document_packing"])
def test_a_million_positions_take_seconds(attnc: Attnc, name: str) -> None:
    start = time.process_time()
    tiles = attnc("explain", name, "--length", "1000000", "--json").json["tiles"]
    assert time.process_time() - start < 10
    assert tiles["total"] == 7813**2
    assert tiles["visited"] <= 0.51 * tiles["total"]


def test_tensors_that_decide_about_tiles_are_said_to_be_drawn(attnc: Attnc) -> None:
    out = attnc("explain", "document_packing").out
    assert "assumed `ids_q`: sorted, runs of 1024 equal values on average, drawn" in out


def test_a_tensor_too_large_to_draw_is_said_to_be(attnc: Attnc) -> None:
    done = attnc("explain", "tree_mask", "--length", "1000000")
    assert (done.code, "not counted: the mask reads `words`" in done.out) == (0, True)


def test_reasons_are_in_the_words_of_the_file(attnc: Attnc) -> None:
    out = attnc("explain", "gemma2_local").out
    assert "(`kv <= qpos` and `kv > qpos - window`)" in out
    assert "d(score out)/d(score in) = 1.0 - tanh(score / 50.0) * tanh(score / 50.0)" in out
    assert "the score is in [-50, 50]" in out


@pytest.mark.parametrize(
    "section",
    [
        "roles\n",
        "pipelines ",
        "shared memory, ",
        "tensor memory, 512 columns",
        "registers\n",
        "cost\n",
        "bottleneck: ",
        "reads\n",
    ],
)
def test_an_explanation_has_every_section(attnc: Attnc, section: str) -> None:
    assert f"\n{section}" in attnc("explain", "gemma2_local").out


def test_a_mask_adds_a_column_of_costs(attnc: Attnc) -> None:
    assert "with mask" in attnc("explain", "causal").out
    assert "with mask" not in attnc("explain", "dense").out


def test_a_variant_that_the_target_cannot_run_is_explained_as_far_as_it_goes(attnc: Attnc, refuse_varlen: None) -> None:
    done = attnc("explain", "packed_varlen")
    assert done.code == 0
    assert "sm100 forward kernel\n  none: `varlen` cannot run on this target" in done.out
    assert attnc("explain", "causal", "--target", "sm90", "--json").json["kernel"]["target"] == "sm90"


@pytest.mark.parametrize("name", variants.names())
def test_every_standard_variant_is_explained(attnc: Attnc, name: str) -> None:
    done = attnc("explain", name, "--length", "300")
    assert (done.code, done.err) == (0, "")
    assert "\n\ntiles of 128 x 128, forward, q 300, kv 300" in done.out


def test_lengths_are_given_once(attnc: Attnc) -> None:
    assert attnc("explain", attnc.write(GOOD), "--length", "5", "--shape", "q=3").code == 2
    assert attnc("explain", "small.attn", "--length", "0").code == 2


def test_work_tiles_of_a_decode_step_are_explained(attnc: Attnc) -> None:
    out = attnc("explain", "causal", "--shape", "b=1,h=64,hkv=8,q=1,kv=8192").out
    assert "8 tiles of 32 rows of each of 8 heads of a group, for 148 multiprocessors" in out
    assert "splits=None would share the keys of each tile out to 16" in out
    apart = attnc("explain", "relative_bias", "--shape", "b=1,h=8,hkv=8,q=1,kv=8192").out
    assert "8 tiles of 256 rows of one head" in apart and "depend on the query head" in apart


@pytest.mark.parametrize("command", ["explain", "bench"])
def test_a_picture_of_an_unknown_format_is_an_error_that_lists_those_that_there_are(attnc: Attnc, command: str) -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    done = attnc(command, "dense", "--png", "x.xyz")
    assert done.code == 2
    assert "error[argument]: --png x.xyz: no picture is written as `.xyz`; there are " in done.err and ".svg" in done.err


@pytest.mark.parametrize("option", ["--html", "--png"])
def test_an_empty_path_of_a_picture_is_an_error(attnc: Attnc, option: str) -> None:
    done = attnc("explain", "dense", option, "")
    assert (done.code, "an empty path" in done.err) == (2, True)
