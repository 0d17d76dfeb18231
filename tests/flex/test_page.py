"""The page on FlexAttention: its programs run, and print what it shows."""

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT

TEXT = (ROOT / "docs/flexattention.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)


def run(program: str, folder: Path) -> None:
    """Run a program from a file, which is where the names in its text come from."""
    path = folder / "program.py"
    path.write_text(program)
    exec(compile(program, str(path), "exec"), {"__name__": "program"})


def test_the_first_program_prints_the_file_that_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^```attn\n(.*?)^```$", TEXT, re.M | re.S)
    run(PROGRAMS[0], tmp_path)
    printed = capsys.readouterr().out
    assert shown in printed
    assert "tensor([" in printed.replace(shown, "")


@pytest.mark.parametrize("program", PROGRAMS[1:])
def test_a_program_of_the_page_runs(program: str, tmp_path: Path) -> None:
    run(program, tmp_path)
