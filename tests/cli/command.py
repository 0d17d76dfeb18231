"""attnc in this process, and what came of it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attnspec.cli.main import main

GOOD = "attention small\nhead_dim 16\nconst n = 3\nscore = score * n\nmask = kv <= qpos and kv > qpos - n\n"


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, read as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Attnc:
    """The command, in a folder of its own."""

    capture: pytest.CaptureFixture[str]
    folder: Path

    def __call__(self, *arguments: str) -> Done:
        self.capture.readouterr()
        code = main(list(arguments))
        found = self.capture.readouterr()
        assert "Traceback" not in found.out + found.err
        return Done(code, found.out, found.err)

    def write(self, text: str, name: str = "small.attn") -> str:
        """A file in the folder; returns its name."""
        (self.folder / name).write_text(text)
        return name


def run_apart(*arguments: str, cwd: Path, stdin: str = "", **environment: str) -> Done:
    """The command in a process of its own."""
    code = "import sys; from attnspec.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env={**os.environ, **environment},
    )
    return Done(done.returncode, done.stdout, done.stderr)
