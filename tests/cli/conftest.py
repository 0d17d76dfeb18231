from pathlib import Path

import pytest
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule import place
from attnspec.lowering.schedule.complete import statement
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.search import Question

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


@pytest.fixture
def refuse_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that runs forwards alone, and says that it is for the head dimension."""
    ask = place.ask

    def refuse(dataflow: Dataflow, analysed: Analysed, limits: Limits) -> Question:
        if dataflow.direction == "backward":
            raise Unsupported(statement((analysed.spec.head_dim, analysed.spec.head_dim_v)), "a test says so")
        return ask(dataflow, analysed, limits)

    monkeypatch.setattr(place, "ask", refuse)
