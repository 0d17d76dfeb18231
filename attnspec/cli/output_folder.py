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
OWN = (*(f"{module}.{kind}" for module in ("forward", "backward") for kind in ("py", "ptx", "cubin", "sass")), MANIFEST)


@contextmanager
def draft_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder inside the one named, from which files are moved up; gone at the end, as are folders left empty."""
    made: list[Path] = []
    try:
        make_folders(folder, made)
        draft = Path(tempfile.mkdtemp(prefix=".attnc-", dir=folder.resolve()))
    except OSError as error:
        remove_empty(made)
        raise ArgumentError(f"-o {folder}: cannot be written: {error.strerror}") from None
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        remove_empty(made)


def make_folders(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it that are missing; `made` gets them, innermost first."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise ArgumentError(f"-o {folder}: there is a file of that name, a folder is wanted")
    if not folder.is_dir():
        make_folders(folder.parent, made)
        folder.mkdir()
        made.insert(0, folder)


def remove_empty(folders: list[Path]) -> None:
    """Remove those that hold nothing."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def settled(data: bytes, draft: Path) -> bytes:
    """The same bytes with the draft's path, which line tables hold, made that of the final folder.

    The path keeps its length, by slashes that mean nothing, because offsets in a cubin count its bytes.
    """
    before, after = os.fsencode(draft), os.fsencode(draft.parent)
    return data.replace(before, after + b"/" * (len(before) - len(after)))


def publish(draft: Path, folder: Path) -> list[Path]:
    """Move the draft's files over, the manifest last; files of an earlier compilation that this one did not make go."""
    names = sorted((path.name for path in draft.iterdir() if path.name in OWN), key=lambda name: (name == MANIFEST, name))
    foreign = [name for name in names if name not in made_before(folder) and os.path.lexists(folder / name)]
    if foreign:
        found = ", ".join(foreign)
        raise ArgumentError(f"-o {folder}: {found} there was not written by attnc compile: move it, or name another folder")
    try:
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
    return [name for name in made_before(folder) if name not in made]


def made_before(folder: Path) -> list[str]:
    """Files of ours that an earlier manifest in the folder lists, and the manifest."""
    try:
        before = json.loads((folder / MANIFEST).read_bytes())
        listed = {*before["files"], MANIFEST} if "attnspec" in before["versions"] else set()
        return [name for name in OWN if name in listed]
    except (OSError, ValueError, KeyError, TypeError):
        return []
