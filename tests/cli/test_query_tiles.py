"""--query-tiles: one query tile that takes two key tiles a step, or two."""

from tests.cli.command import Attnc


def test_explain_tells_both_forms_and_which_the_model_would_choose_for_the_rows_of_the_shape(attnc: Attnc) -> None:
    few = attnc("explain", "dense", "--query-tiles", "1", "--shape", "q=100,kv=4096,h=1,hkv=1").out
    assert "query tiles a work tile: 1, as the model would choose for heads of 100 rows" in few
    assert "mma_pv_head[1](j-1)" in few
    many = attnc("explain", "dense").out
    assert "query tiles a work tile: 2, as the model would choose for heads of" in many
    assert "4096 by the 131,072 bytes that it loads" in many


def test_compile_writes_the_kernel_of_one_query_tile(attnc: Attnc) -> None:
    done = attnc("compile", "dense", "--query-tiles", "1", "--emit", "source", "--forward-only", "-o", "out")
    text = (attnc.folder / "out" / "forward.py").read_text()
    assert (done.code, "key_tiles=2" in text, "softmax_keys(PLAN" in text) == (0, True, True)


def test_what_has_no_kernel_of_one_query_tile_is_an_error_that_names_the_options(attnc: Attnc) -> None:
    wide = attnc("compile", attnc.write("attention wide\nhead_dim 192, 128\n"), "--query-tiles", "1")
    assert (wide.code, "small.attn:2:1" in wide.err, "(query_tiles=1) take head dimensions up to 128" in wide.err) == (
        3,
        True,
        True,
    )
    pair = attnc("compile", "dense", "--query-tiles", "1", "--ctas", "2")
    assert (pair.code, "query_tiles = 1" in pair.err, "(ctas=2)" in pair.err) == (3, True, True)
    assert attnc("compile", "dense", "--target", "sm90", "--query-tiles", "1").code == 3
    for command in (("compile", "--target", "reference"), ("run",)):
        assert attnc(command[0], "dense", *command[1:], "--query-tiles", "1").code == 2
