"""Compiled files into a folder: all of them or none, and nothing else there is touched."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnspec.errors import ArgumentError

MANIFEST = "manifest.json"
OWN = ("forward.py", "backward.py", "forward.ptx", "forward.cubin", "forward.sass", MANIFEST)


@contextmanager
def draft_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside the one named, so that files can be renamed over; gone at the end, whatever happens."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise ArgumentError(f"-o {folder}: there is a file of that name, a folder is wanted")
    try:
        parent = folder.parent if folder.name and folder.name != ".." else folder
        parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".attnc-", dir=parent))
    except OSError as error:
        raise ArgumentError(f"-o {folder}: cannot be written: {error.strerror}") from None
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def publish(draft: Path, folder: Path) -> list[Path]:
    """Move the draft's files over, the manifest last; files of an earlier compilation that this one did not make go."""
    names = sorted((path.name for path in draft.iterdir() if path.name in OWN), key=lambda name: (name == MANIFEST, name))
    try:
        folder.mkdir(exist_ok=True)
        for name in stale(folder, names):
            with suppress(FileNotFoundError):
                (folder / name).unlink()
        for name in names:
            os.replace(draft / name, folder / name)
    except OSError as error:
        raise ArgumentError(f"-o {folder}: cannot be written: {error.strerror} ({error.filename})") from None
    return [folder / name for name in names]


def stale(folder: Path, made: list[str]) -> list[str]:
    """Files of ours that an earlier manifest in the folder lists, and that are not made now."""
    try:
        before = json.loads((folder / MANIFEST).read_bytes())
        listed = before["files"] if "attnspec" in before["versions"] else []
        return [name for name in OWN if name in listed and name not in made]
    except (OSError, ValueError, KeyError, TypeError):
        return []
