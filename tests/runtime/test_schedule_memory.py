"""A schedule that was searched for is found again by the next process, and a cache that cannot be used changes nothing."""

from pathlib import Path

import pytest
from attnspec.runtime.cache import VARIABLE
from attnspec.runtime.schedule_memory import ScheduleMemory

from attnspec import stages

# No shipped schedule has scores of such a cost.
DEAR = "attention dear\nhead_dim 120\nscore = score" + " * (1.0 + score)" * 90 + "\n"


def told(text: str) -> list[str]:
    lines: list[str] = []
    analysed = stages.analyse(stages.read(text))
    stages.place(stages.draw(analysed), analysed, tell=lines.append)
    return lines


def test_new_graph_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("attnspec.lowering.schedule.find_solution._found", {})
    assert told(DEAR)
    assert not told(DEAR)
    assert [path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()] == ["schedule"]


def test_cache_that_cannot_be_used_means_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    memory = ScheduleMemory()
    memory.keep("key", {"roles": []})
    assert memory.find("key") is None
    assert stages.place(*drawn(DEAR)).roles


def drawn(text: str):
    analysed = stages.analyse(stages.read(text))
    return stages.draw(analysed), analysed


def test_no_cache_is_touched_for_a_shipped_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    assert not told("attention plain\nhead_dim 128\n")
    assert not (tmp_path / "cache").exists()
