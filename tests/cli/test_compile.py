"""Files on disk: all or none, nothing foreign touched, nothing left elsewhere."""

import ast
import json
import re
from pathlib import Path

import pytest

from attnspec import stages
from attnspec.language.load import read_spec
from tests.cli.command import GOOD, Attnc, run_apart

FILES = ["backward.cubin", "backward.ptx", "backward.py", "forward.cubin", "forward.ptx", "forward.py", "manifest.json"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """gemma2_local compiled in a process whose folders are all empty before; the parent of them, and what was printed."""
    parent = tmp_path_factory.mktemp("compiled")
    for name in ("here", "home", "temporary"):
        (parent / name).mkdir()
    done = run_apart(
        "compile",
        "gemma2_local",
        cwd=parent / "here",
        HOME=str(parent / "home"),
        TMPDIR=str(parent / "temporary"),
        XDG_CACHE_HOME="",
        ATTNSPEC_CACHE_DIR="",
    )
    assert (done.code, done.err) == (0, "")
    return parent, done.out


def test_source_ptx_cubin_and_manifest_are_written_where_they_are_said_to_be(compiled: tuple[Path, str]) -> None:
    folder = compiled[0] / "here" / "gemma2_local_sm100"
    assert names(folder) == FILES
    assert ".target sm_100a" in (folder / "forward.ptx").read_text()
    assert (folder / "forward.cubin").read_bytes()[:4] == b"\x7fELF"
    ast.parse((folder / "forward.py").read_text())


def test_nothing_is_written_outside_the_folder_named(compiled: tuple[Path, str]) -> None:
    parent, _ = compiled
    assert names(parent / "here") == ["gemma2_local_sm100"]
    assert names(parent / "temporary") == []
    kept = (path.relative_to(parent / "home") for path in (parent / "home").rglob("*") if path.is_file())
    assert {path.parts[:2] for path in kept} <= {(".cache", "attnspec")}


def test_the_stage_table_tells_of_every_stage(compiled: tuple[Path, str]) -> None:
    lines = compiled[1].splitlines()
    stage_names = [line.split()[0] for line in lines if re.match(r"\w+ +\d+\.\d\d", line)]
    assert stage_names == ["tree", "spec", "analysed", "dataflow", "schedule", "emitted", "binary", "total"]
    assert re.search(r"binary .* registers, no spills, [\d,]+ lines of PTX, [\d,]+ bytes of cubin", compiled[1])


def test_the_backward_is_compiled_without_spills(compiled: tuple[Path, str]) -> None:
    folder = compiled[0] / "here" / "gemma2_local_sm100"
    facts = json.loads((folder / "manifest.json").read_text())
    assert re.search(r"backward binary .* no spills", compiled[1])
    assert facts["backward"]["frame_bytes"] == 0
    assert "tcgen05.mma" in (folder / "backward.ptx").read_text()


def test_a_backward_that_the_target_cannot_run_is_told_with_its_statement(attnc: Attnc, refuse_backward: None) -> None:
    done = attnc("compile", "mla", "--emit", "source", "--target", "sm90")
    assert done.code == 0
    assert "note: no backward: `head_dim 192, 128` cannot run on this target" in done.out
    assert names(attnc.folder / "mla_sm90") == ["forward.py", "manifest.json"]


def test_the_manifest_says_what_was_made_of_what(compiled: tuple[Path, str]) -> None:
    folder = compiled[0] / "here" / "gemma2_local_sm100"
    facts = json.loads((folder / "manifest.json").read_text())
    assert (facts["name"], facts["target"], facts["frame_bytes"]) == ("gemma2_local", "sm100", 0)
    assert facts["passes"] == ["forward", "backward"]
    assert facts["constants"] == {"window": 4096, "cap": 50.0}
    assert read_spec(facts["spec"]).constants == read_spec(facts["spec"], {"window": 4096}).constants
    kernel = {"dataflow", "schedule", "emitted", "binary"}
    assert set(facts["stages"]) == {"tree", "spec", "analysed", *kernel, *(f"backward {name}" for name in kernel)}
    assert set(facts["versions"]) == {"attnspec", "nvidia-cutlass-dsl", "python"}
    assert {name: row["bytes"] for name, row in facts["files"].items()} == {
        name: (folder / name).stat().st_size for name in FILES if name != "manifest.json"
    }


def test_the_census_in_the_manifest_is_that_of_the_ptx(compiled: tuple[Path, str]) -> None:
    folder = compiled[0] / "here" / "gemma2_local_sm100"
    census = json.loads((folder / "manifest.json").read_text())["ptx_census"]
    lines = [line.strip() for line in (folder / "forward.ptx").read_text().splitlines()]
    assert census["tensor core"] == sum(bool(re.match(r"(@%\w+ )?tcgen05\.mma\.", line)) for line in lines)
    assert census["barrier set-up"] == sum(bool(re.match(r"(@%\w+ )?mbarrier\.init\.", line)) for line in lines)
    assert census["local memory"] == 0


def test_line_tables_name_the_source_where_it_lies_now(compiled: tuple[Path, str]) -> None:
    folder = compiled[0] / "here" / "gemma2_local_sm100"
    sources = re.findall(r'\.file\s+\d+ "([^"]*forward\.py)"', (folder / "forward.ptx").read_text())
    assert sources
    assert {Path(path).resolve() for path in sources} == {(folder / "forward.py").resolve()}
    assert b".attnc-" not in (folder / "forward.cubin").read_bytes() + (folder / "forward.ptx").read_bytes()


def test_the_reference_is_written_as_torch_source(attnc: Attnc) -> None:
    done = attnc("compile", attnc.write(GOOD), "--target", "reference", "--json")
    assert (done.code, done.json["folder"], done.json["passes"]) == (0, "small_reference", ["forward", "backward"])
    assert names(attnc.folder / "small_reference") == ["backward.py", "forward.py", "manifest.json"]


def test_source_alone_is_written_without_the_kernel_compiler(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "assemble", None)
    assert attnc("compile", "causal", "--emit", "source", "-o", "a/b/out").code == 0
    assert names(attnc.folder / "a/b/out") == ["backward.py", "forward.py", "manifest.json"]


def test_an_error_leaves_nothing_half_written(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(emitted: object, folder: Path, sass: bool) -> None:
        (folder / "forward.py").write_text("half")
        raise RuntimeError

    monkeypatch.setattr(stages, "assemble", broken)
    assert attnc("compile", "causal", "-o", "new").code == 70
    assert names(attnc.folder) == []
    old = attnc.folder / "old"
    old.mkdir()
    (old / "forward.py").write_text("of before")
    assert attnc("compile", "causal", "-o", "old").code == 70
    assert (names(attnc.folder), (old / "forward.py").read_text()) == (["old"], "of before")


def test_files_of_others_stay_and_those_of_an_earlier_compilation_go(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    attnc("compile", name, "--target", "reference", "-o", "out")
    (attnc.folder / "out/notes.txt").write_text("mine")
    attnc("compile", name, "--target", "reference", "--forward-only", "-o", "out")
    assert names(attnc.folder / "out") == ["forward.py", "manifest.json", "notes.txt"]


def test_files_of_another_program_are_left_as_they_are(attnc: Attnc) -> None:
    out = attnc.folder / "out"
    out.mkdir()
    theirs = {"manifest.json": '{"files": ["backward.py", "../small.attn"]}', "backward.py": "mine"}
    for name, text in theirs.items():
        (out / name).write_text(text)
    assert attnc("compile", attnc.write(GOOD), "--target", "reference", "--forward-only", "-o", "out").code == 2
    assert {path.name: path.read_text() for path in out.iterdir()} == theirs


def test_a_link_in_the_folder_is_not_followed(attnc: Attnc) -> None:
    target = attnc.folder / "precious"
    target.write_text("mine")
    (attnc.folder / "out").mkdir()
    (attnc.folder / "out/forward.py").symlink_to(target)
    assert attnc("compile", attnc.write(GOOD), "--target", "reference", "-o", "out").code == 2
    assert target.read_text() == "mine"
    assert (attnc.folder / "out/forward.py").is_symlink()


@pytest.mark.parametrize("folder", ["taken", "taken/inside", "/dev/null", "/proc/none"])
def test_a_folder_that_cannot_be_is_an_error_that_names_it(attnc: Attnc, folder: str) -> None:
    (attnc.folder / "taken").write_text("a file")
    done = attnc("compile", "causal", "--emit", "source", "-o", folder)
    assert (done.code, done.err.startswith(f"error[argument]: -o {folder[:5]}")) == (2, True)


@pytest.mark.parametrize("folder", [".", "..", "x/..", "x/../y"])
def test_a_folder_may_be_named_by_dots(attnc: Attnc, folder: str) -> None:
    (attnc.folder / "x").mkdir()
    assert attnc("compile", "causal", "--emit", "source", "-o", folder).code == 0
    assert {"forward.py", "manifest.json"} <= set(names(attnc.folder / folder))


def test_an_empty_folder_name_is_an_error_and_writes_nothing(attnc: Attnc) -> None:
    done = attnc("compile", "causal", "--emit", "source", "-o", "")
    assert (done.code, "an empty path" in done.err, names(attnc.folder)) == (2, True, [])
    assert "an empty path" in attnc("bench", "causal", "--png", "").err


def test_a_statement_that_the_backward_cannot_run_is_named_in_a_note(attnc: Attnc, refuse_backward: None) -> None:
    name = attnc.write("attention wide\n\n  head_dim 256  # wide\nmask = causal\n")
    done = attnc("compile", name, "--emit", "source", "-o", "wide", "--target", "sm90")
    assert done.code == 0
    assert "note: no backward: `head_dim 256` cannot run on this target" in done.out
    assert names(attnc.folder / "wide") == ["forward.py", "manifest.json"]


def test_a_file_that_is_not_ours_is_not_written_over(attnc: Attnc) -> None:
    (attnc.folder / "mine").mkdir()
    attnc.write("print(1)\n", "mine/forward.py")
    done = attnc("compile", "causal", "--emit", "source", "-o", "mine")
    assert done.code != 0
    assert "forward.py there was not written by attnc compile" in done.err
    assert (attnc.folder / "mine" / "forward.py").read_text() == "print(1)\n"
    assert names(attnc.folder / "mine") == ["forward.py"]


def test_binaries_of_the_reference_are_an_error(attnc: Attnc) -> None:
    assert attnc("compile", "causal", "--target", "reference", "--emit", "ptx").code == 2
    assert "the kinds are source, ptx, cubin, sass" in attnc("compile", "causal", "--emit", "source,elf").err
