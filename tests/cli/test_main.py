"""Errors of every sort: an exit code, a text that names what is wrong, JSON on demand, and no traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import attnspec
from attnspec import stages
from attnspec.cli.json_text import json_text
from attnspec.language.diagnostics import InternalError
from tests.cli.command import GOOD, Attnc, run_apart


def test_help_lists_every_command(attnc: Attnc) -> None:
    for arguments in ([], ["-h"], ["--help"]):
        done = attnc(*arguments)
        assert done.code == 0
        assert all(f"\n  {name} " in done.out for name in ("check", "compile", "run", "show", "explain", "variants"))


@pytest.mark.parametrize("name", ["check", "compile", "run", "show", "explain", "variants"])
def test_every_command_explains_itself(attnc: Attnc, name: str) -> None:
    done = attnc(name, "-h")
    assert (done.code, done.out.splitlines()[0][: 13 + len(name)]) == (0, f"Usage: attnc {name}")


def test_the_version_is_told(attnc: Attnc) -> None:
    assert attnc("--version").out == f"attnc, version {attnspec.__version__}\n"


def test_an_unknown_command_is_told_of_the_nearest_one(attnc: Attnc) -> None:
    done = attnc("explian", "gemma2_local")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "error[usage]: there is no command `explian`; did you mean `explain`?",
    )
    assert "the commands are: check, compile, run" in attnc("serve").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "Missing argument 'FILE'"),
        (["check", "gemma2_local", "--nonsense"], "No such option"),
        (["check", "gemma2_local", "-D", "window"], "'window' is not NAME=VALUE"),
        (["show", "gemma2_local"], "Missing option '--stage'"),
        (["show", "gemma2_local", "--stage", "soul"], "'soul' is not one of"),
        (["compile", "gemma2_local", "--target", "sm75"], "'sm75' is not one of"),
    ],
)
def test_a_wrong_command_line_is_an_error_that_says_how_it_is_used(attnc: Attnc, arguments: list[str], said: str) -> None:
    done = attnc(*arguments)
    assert done.code == 2
    assert done.err.startswith("error[usage]: ")
    assert said in done.err
    assert f"Usage: attnc {arguments[0]} [OPTIONS]" in done.err


def test_errors_of_a_file_are_json_too_with_the_same_exit_code(attnc: Attnc) -> None:
    name = attnc.write(GOOD.replace("qpos - n", "qpos - m").replace("score * n", "score * k2"))
    done = attnc("check", name, "--json")
    assert done.code == 2
    assert [(row["name"], row["file"], row["line"], row["column"]) for row in done.json["errors"]] == [
        ("unknown-name", "small.attn", 4, 17),
        ("unknown-name", "small.attn", 5, 35),
    ]
    assert done.err == attnc("check", name).err


@pytest.mark.parametrize("arguments", [["check", "--json"], ["run", "gemma2_local", "--target", "sm100", "--json"]])
def test_every_other_error_is_json_too(attnc: Attnc, arguments: list[str]) -> None:
    done = attnc(*arguments)
    (row,) = done.json["errors"]
    assert done.code in (2, 3)
    assert set(row) == {"name", "message", "file", "line", "column", "end_line", "end_column", "help"}
    assert row["message"] in done.err


@pytest.mark.parametrize("fault", [KeyError("gone"), InternalError("a circle was squared"), RecursionError(), AssertionError()])
def test_a_fault_of_ours_asks_for_a_report_and_keeps_what_that_needs(
    attnc: Attnc, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(*_: object) -> None:
        raise fault

    monkeypatch.setattr(stages, "check", broken)
    done = attnc("check", attnc.write(GOOD))
    assert done.code == 70
    assert "please report it with the spec" in done.err
    folder = Path(done.err.splitlines()[-1].rpartition(" ")[2])
    assert (folder / "spec.attn").read_text() == GOOD
    assert type(fault).__name__ in (folder / "traceback.txt").read_text()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_fault_of_ours_is_told_even_where_nothing_can_be_kept(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "check", lambda *_: 1 // 0)
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", "/dev/null/none")
    done = attnc("check", attnc.write(GOOD))
    assert (done.code, "could not be kept" in done.err) == (70, True)


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 3)])
def test_what_ends_a_run_from_outside_has_its_own_code(
    attnc: Attnc, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def ended(*_: object) -> None:
        raise error

    monkeypatch.setattr(stages, "check", ended)
    assert attnc("check", "gemma2_local").code == code


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    code = "import sys; from attnspec.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "show", "gemma2_local", "--stage", "schedule"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_control_characters_in_a_file_name_do_not_reach_the_terminal(attnc: Attnc) -> None:
    done = attnc("check", "no\x1b[31m.attn")
    assert (done.code, "\x1b" in done.err) == (2, False)


def test_text_that_the_terminal_cannot_show_is_shown_by_its_codes(tmp_path: Path) -> None:
    text = GOOD.replace("score * n", "scor * n  # früher")
    done = run_apart("check", "-", cwd=tmp_path, stdin=text, PYTHONIOENCODING="ascii")
    assert (done.code, "score = scor * n  # fr" in done.err) == (2, True)


def test_numbers_that_json_does_not_have_are_strings() -> None:
    assert json.loads(json_text({"worst": [float("inf"), -float("inf"), 1.5]})) == {"worst": ["inf", "-inf", 1.5]}


def test_the_command_of_the_package_is_that_function(tmp_path: Path) -> None:
    done = run_apart("check", "-", cwd=tmp_path, stdin=GOOD)
    assert (done.code, done.out.splitlines()[0], done.err) == (0, "ok  small: head_dim 16, bf16", "")
