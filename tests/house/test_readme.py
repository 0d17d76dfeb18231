"""What the README shows is what happens."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from attnspec import variants
from attnspec.cli.main import COMMANDS, main
from attnspec.language.load import read_spec
from tests.house.tree import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[str]:
    """Code blocks of the README in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


def commands() -> list[str]:
    """Lines of its shell blocks that call attnc."""
    lines = (line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines())
    return [line for line in lines if line.startswith("attnc ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the README shows, by their names."""
    monkeypatch.chdir(tmp_path)
    for block in blocks("attn"):
        (tmp_path / f"{read_spec(block).name}.attn").write_text(block)
    return tmp_path


@pytest.mark.parametrize("command", commands())
@pytest.mark.usefixtures("folder")
def test_a_command_of_the_readme_works(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("block", blocks("python"))
def test_the_python_of_the_readme_runs(folder: Path, block: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=folder, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("torch.Size([1, 200, 4, 64]) torch.Size([1, 4, 200]) tensor([")


def test_the_error_of_the_readme_is_what_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in blocks("text") if block.startswith("error["))
    path = folder / "my_variant.attn"
    path.write_text(path.read_text().replace("qpos - window", "qpos - windw"))
    assert main(["check", "my_variant.attn"]) == 2
    assert capsys.readouterr().err == block


def test_the_first_variant_is_the_one_that_is_shipped() -> None:
    assert read_spec(blocks("attn")[0]) == read_spec(variants.path("gemma2_local"))


def test_the_table_of_variants_is_that_of_the_folder() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(attnspec/variants/\1\.attn\) \| (.*) \| (.*) \|$", TEXT, re.M)
    assert rows == [(name, *variants.describe(name)) for name in variants.names()]


def test_the_number_of_variants_is_right() -> None:
    assert f"{len(variants.names())} standard variants" in TEXT
    assert f"{len(variants.names())} standard variants" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_table_of_commands_names_every_command() -> None:
    assert re.findall(r"^\| `attnc (\w+)", TEXT, re.M) == list(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_targets_of_make_that_the_readme_names_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"\bmake ([a-z-]+)", TEXT)) & {"demo", "test"} == {"demo", "test"}
    assert set(re.findall(r"^make ([a-z-]+)", TEXT, re.M)) <= targets


def test_the_files_that_the_walk_names_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:attnspec|lowering|backends|runtime|tests)/[\w/.]+)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def hopper_ratios(section: str) -> dict[str, list[float]]:
    """Ours over the best other, by kind of case, of a table of the page of Hopper's figures."""
    page = (ROOT / "docs/performance_hopper.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+).* \| (\d\.\d\d)[^|]*\|$", page.partition(f"## {section}")[2].partition("\n## ")[0], re.M)
    return {kind: [float(ratio) for name, ratio in rows if (name if name in ("softcap", "window") else "plain") == kind]
            for kind in ("plain", "softcap", "window")}  # fmt: skip


def test_the_speeds_of_the_readme_are_those_that_were_measured() -> None:
    forward, backward = hopper_ratios("Forward"), hopper_ratios("Backward")
    text = " ".join(TEXT.split())
    others = forward["plain"] + forward["window"]
    assert f"forward runs at {min(others):.2f} to {max(others):.2f} of flash-attn-4's speed" in text
    assert f"at {min(forward['softcap']):.1f} to {max(forward['softcap']):.1f} times it with a soft cap" in text
    plain = backward["plain"] + [ratio for ratio in backward["softcap"] if ratio < 1]
    assert f"the backward at {min(plain):.2f} to {max(plain):.2f} of it" in text
    assert f"with a window of 1,024 at {min(backward['window']):.2f} to {max(backward['window']):.2f}" in text
