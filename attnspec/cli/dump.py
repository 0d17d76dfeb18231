"""What a report of a fault of ours needs, kept in a folder: the spec, the traceback, the versions."""

import sys
import time
import traceback
from pathlib import Path

from attnspec import __version__
from attnspec.cli.invocation import Invocation
from attnspec.language.limits import MAX_FILE


def write_dump(error: BaseException, invocation: Invocation) -> str:
    """The sentence that names the folder, or says why there is none."""
    try:
        folder = new_folder()
        (folder / "traceback.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        about = f"attnspec {__version__}, Python {sys.version}\n{sys.platform}\n{sys.argv[1:]}\n"
        (folder / "about.txt").write_text(about, encoding="utf-8")
        if invocation.spec is not None:
            (folder / "spec.attn").write_bytes(spec_bytes(invocation.spec))
    except Exception as problem:
        return f"What a report needs could not be kept: {problem}"
    return f"The spec and the traceback are in {folder}"


def new_folder() -> Path:
    """A fresh folder among the user's caches."""
    from attnspec.runtime.cache import open_cache

    reports = open_cache().folder / "reports"
    reports.mkdir(mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = reports / f"{stamp}-{number}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{reports} is full")


def spec_bytes(spec: Path | bytes) -> bytes:
    """The spec as it was given."""
    if isinstance(spec, bytes):
        return spec
    with spec.open("rb") as file:
        return file.read(MAX_FILE + 1)
