"""Golden texts: what a stage prints for a known input, kept in tests/golden."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare a text with tests/golden/NAME; with ATTNSPEC_GOLDEN=write, write it there instead."""
    path = FOLDER / name
    if os.environ.get("ATTNSPEC_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists(), f"{path} is missing: see tests/golden/README.md"
    assert text == path.read_text(), f"{path} differs: see tests/golden/README.md"
