from pathlib import Path

import pytest
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule import place
from attnspec.lowering.schedule.refusal import Unsupported

from tests.cli.command import Attnc


@pytest.fixture
def attnc(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attnc:
    """The command in an empty folder, its reports of faults in another."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return Attnc(capsys, folder)


@pytest.fixture
def refuse_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that cannot run packed sequences."""

    def refuse(analysed: Analysed, *_: object) -> None:
        if analysed.spec.is_varlen:
            raise Unsupported("varlen", "a test says so")

    monkeypatch.setattr(place, "refuse_unsupported", refuse)
