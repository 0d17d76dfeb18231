"""--ctas: two CTAs that share keys and values, or not."""

from tests.cli.command import Attnc


def test_explain_tells_both_forms_and_what_the_model_would_choose(attnc: Attnc) -> None:
    out = attnc("explain", "dense", "--ctas", "2").out
    assert "CTAs a work tile: 2, as asked; the model would choose 1" in out
    assert "work tiles of 512 rows share their keys" in out
    assert "CTAs a work tile: 1, as the model would choose" in attnc("explain", "dense").out


def test_compile_writes_a_kernel_of_pairs(attnc: Attnc) -> None:
    assert attnc("compile", "dense", "--ctas", "2", "--emit", "source", "--forward-only", "-o", "out").code == 0
    assert "cluster=[pair.CTAS, 1, 1]" in (attnc.folder / "out" / "forward.py").read_text()


def test_compile_writes_a_backward_of_pairs_where_they_can_share_it(attnc: Attnc) -> None:
    """Narrow enough for a pair in both directions; and only in the forward."""
    for head_dim, is_paired in ((128, True), (192, False)):
        name = attnc.write(f"attention small\nhead_dim {head_dim}, 128\n")
        assert attnc("compile", name, "--ctas", "2", "--emit", "source", "-o", f"out{head_dim}").code == 0
        texts = [(attnc.folder / f"out{head_dim}" / f"{kernel}.py").read_text() for kernel in ("forward", "backward")]
        assert ["cluster=[pair.CTAS, 1, 1]" in text for text in texts] == [True, is_paired]


def test_the_backward_is_of_pairs_where_the_model_finds_them(attnc: Attnc) -> None:
    """And says so, with the cycles of both forms, in text and for machines."""
    assert "CTAs a work tile: 2, as the model finds" in attnc("explain", "dense").out
    found = attnc("explain", "dense", "--json").json
    assert (found["kernel"]["ctas"], found["backward"]["ctas"]) == (1, 2)
    assert all(
        f"{ctas}: a step takes {cycles} cycles" in found["backward"]["why_ctas"] for ctas, cycles in ((1, 3656), (2, 3192))
    )
    for option, is_paired in (((), True), (("--ctas", "1"), False)):
        assert attnc("compile", "dense", *option, "--emit", "source", "-o", "made").code == 0
        assert ("cluster=[pair.CTAS, 1, 1]" in (attnc.folder / "made" / "backward.py").read_text()) == is_paired


def test_explain_tells_why_a_backward_is_not_of_pairs(attnc: Attnc) -> None:
    assert "hangs on `prefix`" in attnc("explain", "prefix_lm").out
    assert "summed along diagonals" in attnc("explain", "relative_bias", "--ctas", "2").out


def test_heads_too_wide_for_a_pair_are_an_error_with_their_place(attnc: Attnc) -> None:
    done = attnc("compile", attnc.write("attention wide\nhead_dim 256\n"), "--ctas", "2")
    assert (done.code, "small.attn:2:1" in done.err, "one CTA (ctas=1) takes these" in done.err) == (3, True, True)


def test_the_reference_has_no_ctas(attnc: Attnc) -> None:
    for command in (("compile", "--target", "reference"), ("run",)):
        assert attnc(command[0], "dense", *command[1:], "--ctas", "2").code == 2
