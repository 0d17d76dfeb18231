"""A file of the report where the user wants it: whole, or not at all."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attnspec.errors import ArgumentError


def write_whole(path: Path, option: str, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, then put it there."""
    if path.is_dir():
        raise ArgumentError(f"{option} {path}: there is a folder of that name, a file is wanted")
    try:
        handle, name = tempfile.mkstemp(prefix=".attnc-", suffix=path.suffix, dir=path.resolve().parent)
        os.close(handle)
    except OSError as error:
        raise ArgumentError(f"{option} {path}: cannot be written: {error.strerror}") from None
    draft = Path(name)
    try:
        write(draft)
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, path)
    except OSError as error:
        raise ArgumentError(f"{option} {path}: cannot be written: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _umask() -> int:
    """The process's own; there is no other way to ask."""
    found = os.umask(0)
    os.umask(found)
    return found
