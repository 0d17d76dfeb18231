"""What the pages of docs/ show is what happens: their commands and their Python run, in the order of the page."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from attnspec.cli.main import main
from attnspec.language.diagnostics import SpecError
from attnspec.language.load import read_spec
from tests.house.tree import ROOT

DOCS = ROOT / "docs"
NEEDS = {"huggingface": "transformers"}  # pages by what they use beside attnspec


@dataclass(frozen=True)
class Block:
    """One code block of a page."""

    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    """All code blocks, in order."""
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", path.read_text("utf-8"), re.M | re.S)]


def pages(language: str) -> list[str]:
    """Pages that have a block in a language."""
    return [path.stem for path in sorted(DOCS.glob("*.md")) if any(block.language == language for block in blocks(path))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_variants(page: str, folder: Path) -> None:
    """The page's whole variants, each as NAME.attn."""
    for block in blocks(DOCS / f"{page}.md"):
        if block.language == "attn" and "attention " in block.text:
            try:
                (folder / f"{read_spec(block.text).name}.attn").write_text(block.text)
            except SpecError:
                continue  # shown as wrong; the page's own test knows why


def commands(page: str) -> list[tuple[str, str]]:
    """`attnc` lines of the page's shell blocks, each with the text block that follows it."""
    found = []
    listed = blocks(DOCS / f"{page}.md")
    for block, after in zip(listed, [*listed[1:], Block("", "")], strict=True):
        if block.language == "sh":
            lines = [line.partition("#")[0].strip() for line in block.text.splitlines()]
            calls = [line for line in lines if line.startswith("attnc ")]
            found += [(call, after.text if after.language == "text" and call == calls[-1] else "") for call in calls]
    return found


@pytest.mark.parametrize("page", pages("sh"))
def test_the_commands_of_a_page_do_and_say_what_it_shows(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_variants(page, folder)
    for command, shown in commands(page):
        assert main(shlex.split(command)[1:]) == 0, command
        said = capsys.readouterr().out
        at = 0
        for line in shown.splitlines():
            place = said.find(line.rstrip(), at)
            assert place >= 0, f"{command}: no {line!r} in\n{said[at:]}"
            at = place + len(line.rstrip())


@pytest.mark.parametrize("page", pages("python"))
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str, folder: Path) -> None:
    needed = NEEDS.get(page)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    write_variants(page, folder)
    text = "\n".join(block.text for block in blocks(DOCS / f"{page}.md") if block.language == "python")
    (folder / "page.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_error_of_the_tutorial_is_what_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_variants("tutorial", folder)
    (shown,) = (block.text for block in blocks(DOCS / "tutorial.md") if block.text.startswith("error["))
    path = folder / "bars.attn"
    path.write_text(path.read_text().replace("reach) + reach", "reach) + bar"))
    assert main(["check", "bars.attn"]) == 2
    assert capsys.readouterr().err == shown
