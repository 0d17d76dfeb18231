"""Kernels as functions that launch, from the user's cache: what one process has compiled, the next one loads."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import COMPILER, assemble_object, load_object
from attnspec.runtime.cache import open_cache
from attnspec.runtime.stored_binary import key_of

from attnspec.errors import CacheError, TargetError

PREFIX = "object-"
OBJECT = "kernel.o"
PACKAGES = {"cutlass": COMPILER, "tvm_ffi": "apache-tvm-ffi"}  # by import name


def function_of(emitted: Emitted) -> Callable[..., Any]:
    """The host function of a module, compiled only where no process has before. Without a usable cache it is compiled."""
    require_packages()
    try:
        cache = open_cache()
        key = PREFIX + key_of(emitted, False, with_lines=False)
        entry = cache.find(key) or cache.store(key, {OBJECT: made(emitted)}, {"name": emitted.manifest["name"]})
    except (CacheError, OSError):  # none that can be used; or a full or read-only disk
        with tempfile.TemporaryDirectory(prefix="attnspec-") as folder:
            path = Path(folder) / OBJECT
            path.write_bytes(made(emitted))
            return load_object(path)
    return load_object(entry.folder / OBJECT)


def made(emitted: Emitted) -> bytes:
    """Compile."""
    with tempfile.TemporaryDirectory(prefix="attnspec-") as folder:
        return assemble_object(emitted, Path(folder))


def require_packages() -> None:
    """TargetError that names the missing ones."""
    missing = [name for module, name in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise TargetError(f"kernels on a GPU need {' and '.join(missing)}: pip install {' '.join(missing)}")
