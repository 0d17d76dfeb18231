from pathlib import Path

import pytest

from tests.cli.command import Attnc


@pytest.fixture
def attnc(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attnc:
    """The command in an empty folder, its reports of faults in another."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return Attnc(capsys, folder)
