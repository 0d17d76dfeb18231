"""The page on Hugging Face models: its programs run."""

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT

PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/huggingface.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_page_runs(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    exec(compile(program, str(path), "exec"), {"__name__": "program"})
    assert "tensor(" in capsys.readouterr().out
