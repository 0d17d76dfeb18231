import pytest

from tests.cli.command import GOOD, Attnc, run_apart


def test_a_good_file_is_summed_up(attnc: Attnc) -> None:
    text = GOOD + "learned w: f32[heads]\ninput ids: i32[batch, len_q] in 0..9 sorted\nsink = w[h]\n"
    done = attnc("check", attnc.write(text))
    assert done.code == 0
    assert done.out.splitlines() == [
        "ok  small: head_dim 16, bf16",
        "    const n = 3",
        "    learned w: f32[heads]",
        "    input ids: i32[batch, len_q] in 0..9 sorted",
    ]


def test_a_good_file_is_summed_up_for_machines(attnc: Attnc) -> None:
    facts = attnc("check", "relative_bias", "--json").json
    assert facts["ok"] is True
    assert (facts["name"], facts["constants"]) == ("relative_bias", {"reach": 128})
    assert [(tensor["name"], tensor["is_learned"]) for tensor in facts["tensors"]] == [("bias", True)]


def test_a_fault_is_shown_where_it_stands(attnc: Attnc) -> None:
    done = attnc("check", attnc.write(GOOD.replace("score * n", "scor * n")))
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0].startswith("error[unknown-name]: ")
    assert done.err.splitlines()[1:5] == ["  --> small.attn:4:9", "   |", "4  | score = scor * n", "   |         ^^^^"]


def test_standard_input_is_a_file_too(attnc: Attnc) -> None:
    assert run_apart("check", "-", cwd=attnc.folder, stdin=GOOD).code == 0
    bad = run_apart("check", "-", cwd=attnc.folder, stdin="attention x\nhead_dim 12\n")
    assert (bad.code, "--> <stdin>:2:10" in bad.err) == (2, True)


def test_the_name_of_a_standard_variant_is_a_file_too(attnc: Attnc) -> None:
    assert attnc("check", "gemma2_local").out.startswith("ok  gemma2_local:")


def test_a_file_wins_over_a_variant_of_its_name(attnc: Attnc) -> None:
    assert attnc("check", attnc.write(GOOD, "causal")).out.startswith("ok  small:")


def test_a_folder_does_not_hide_a_variant_of_its_name(attnc: Attnc) -> None:
    (attnc.folder / "causal").mkdir()
    assert attnc("check", "causal").out.startswith("ok  causal:")


def test_a_name_that_is_neither_is_told_of_those_near_it(attnc: Attnc) -> None:
    assert "gemma2_global, gemma2_local, gemma3_local" in attnc("check", "gemma").err
    assert "did you mean `longformer`?" in attnc("check", "longfromer").err
    assert "`attnc variants` lists" in attnc("check", "zebra").err


def test_a_file_that_is_not_there_is_an_error_of_the_file(attnc: Attnc) -> None:
    done = attnc("check", "nowhere.attn")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "error[cannot-read]: this file cannot be read: No such file or directory",
    )


def test_constants_are_overridden(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    assert attnc("check", name, "-D", "n=5", "--json").json["constants"] == {"n": 5}
    assert attnc("check", name, "-D", "n=0x5", "--json").json["constants"] == {"n": 5}
    assert attnc("check", name, "-D", "n=1_0").code == 2


def test_a_constant_given_twice_is_a_wrong_command_line(attnc: Attnc) -> None:
    done = attnc("check", attnc.write(GOOD), "-D", "n=4", "-D", "n=6")
    assert (done.code, "n is given twice" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("override", "said", "help"),
    [
        ("slope=1", "`slope` is a learned tensor, not a constant", "pass it with each call: `slope=...`"),
        ("heat=1", "`heat` is an input, not a constant", "pass it with each call: `heat=...`"),
        ("far=1", "`far` is a `let`, not a constant", "make it a `const`"),
        ("twice=1", "`twice` is a function, not a constant", ""),
        ("head_dim=64", "`head_dim` is a statement of the file, not a constant", "change the line `head_dim ...` there"),
        ("len_kv=64", "`len_kv` is given by the call, not a constant", ""),
        ("n=8*2", "`n` must be a number, not str '8*2'", "give it worked out; only the file may hold expressions"),
        ("m=2", "this file has no constant `m`; its constants are: n", ""),
    ],
)
def test_an_override_of_what_is_no_constant_is_told_what_it_is(attnc: Attnc, override: str, said: str, help: str) -> None:
    names = "learned slope: f32[heads]\ninput heat: f32\nlet far = qpos - kv\ndef twice(x) = 2 * x\nsink = slope[h]\n"
    done = attnc("check", attnc.write(GOOD + names), "-D", override, "--json")
    (fault,) = done.json["errors"]
    assert (done.code, fault["message"], fault["help"] or "") == (2, said, help)


def test_an_empty_name_of_a_file_is_told_to_be_empty(attnc: Attnc) -> None:
    done = attnc("check", "")
    assert (done.code, "no file is named: FILE is empty" in done.err) == (2, True)


def test_an_override_that_does_not_fit_is_an_error_that_shows_it(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    for text in ("m=1", "n=abc", "n=inf", "n=1e99", f"n={'9' * 5000}"):
        done = attnc("check", name, "-D", text)
        assert (done.code, "<constants>:1:1" in done.err) == (2, True), text


def test_the_standard_variants_are_listed(attnc: Attnc) -> None:
    rows = attnc("variants", "--json").json
    assert len(rows) >= 24
    assert all(f"\n{row['name']} " in attnc("variants").out for row in rows)
