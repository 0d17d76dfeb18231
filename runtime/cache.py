"""The disk cache of compiled kernels: a private folder, an entry a sub-folder, safe between processes.

An entry is written to a temporary folder and renamed into place, so a reader sees all of it or nothing; of two writers the
first wins, and both have made the same. Checksums are verified on every read: a bad entry counts as missing and is removed.
"""

import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnspec.errors import CacheError

VARIABLE = "ATTNSPEC_CACHE_DIR"
MANIFEST = "manifest.json"
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


@dataclass(frozen=True)
class Entry:
    """What is kept under a key. folder: where its blobs lie as files of those names. facts: JSON types."""

    folder: Path
    blobs: Mapping[str, bytes]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Cache:
    """A cache in a folder; `open_cache` gives the user's."""

    folder: Path

    def find(self, key: str) -> Entry | None:
        """The entry, if there is one and every checksum holds."""
        folder = self.folder / checked_name(key)
        try:
            return read_entry(folder)
        except FileNotFoundError:
            if not folder.exists():
                return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self._discard(folder)
        return None

    def store(self, key: str, blobs: Mapping[str, bytes], facts: Mapping[str, Any]) -> Entry:
        """Write an entry, unless another process was first; returns the one that is there."""
        final = self.folder / checked_name(key)
        draft = self.folder / f".{key[:16]}-{os.getpid()}-{secrets.token_hex(6)}"
        draft.mkdir(mode=0o700)
        try:
            write_entry(draft, blobs, facts)
            try:
                os.replace(draft, final)
            except OSError:  # the key is taken: a folder is never renamed over one with files in it
                found = self.find(key)
                if found is not None:
                    return found
                os.replace(draft, final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return Entry(final, dict(blobs), dict(facts))

    def find_or_store(self, key: str, make: Callable[[], tuple[Mapping[str, bytes], Mapping[str, Any]]]) -> Entry:
        """The entry; made and stored if it is missing or bad."""
        return self.find(key) or self.store(key, *make())

    def _discard(self, folder: Path) -> None:
        # Renamed first, so that no other process reads half of a folder that is being removed.
        away = self.folder / f".bad-{os.getpid()}-{secrets.token_hex(6)}"
        try:
            os.replace(folder, away)
        except FileNotFoundError:
            return
        shutil.rmtree(away, ignore_errors=True)


def write_entry(folder: Path, blobs: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """The files of an entry, the manifest last."""
    sums = {}
    for name, blob in blobs.items():
        if name == MANIFEST:
            raise ValueError(f"{MANIFEST} is the cache's own")
        write_private(folder / checked_name(name), blob)
        sums[name] = hashlib.sha256(blob).hexdigest()
    body = json.dumps({"blobs": sums, "facts": dict(facts)}, sort_keys=True)
    digest = hashlib.sha256(body.encode()).hexdigest()
    write_private(folder / MANIFEST, json.dumps({"body": body, "sha256": digest}).encode())


def read_entry(folder: Path) -> Entry:
    """An entry; ValueError where a checksum does not hold."""
    outer = json.loads((folder / MANIFEST).read_bytes())
    if hashlib.sha256(outer["body"].encode()).hexdigest() != outer["sha256"]:
        raise ValueError("the manifest has changed")
    body = json.loads(outer["body"])
    blobs = {}
    for name, digest in body["blobs"].items():
        blobs[name] = (folder / checked_name(name)).read_bytes()
        if hashlib.sha256(blobs[name]).hexdigest() != digest:
            raise ValueError(f"{name} has changed")
    return Entry(folder, blobs, body["facts"])


def write_private(path: Path, blob: bytes) -> None:
    """A new file that only its owner reads; refuses to follow or overwrite."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(blob)


def checked_name(name: str) -> str:
    """A file name of ours; ValueError if it could mean another folder."""
    if not name or name.startswith(".") or not NAME_CHARACTERS.issuperset(name):
        raise ValueError(f"not a cache file name: {name!r}")
    return name


def open_cache() -> Cache:
    """The user's cache: the folder that ATTNSPEC_CACHE_DIR names, or the platform's own place for caches."""
    folder = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else default_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise CacheError(f"the cache folder {folder} cannot be used: {error.strerror}; set {VARIABLE}") from None
    refuse_shared(folder, found)
    return Cache(folder)


def default_folder() -> Path:
    """Where this platform keeps a user's caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "attnspec" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "attnspec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnspec"


def refuse_shared(folder: Path, found: os.stat_result) -> None:
    """CacheError if others could put code there: kernels are loaded from this folder."""
    if sys.platform == "win32":
        return
    if found.st_uid != os.geteuid():
        raise CacheError(f"the cache folder {folder} belongs to another user (uid {found.st_uid}); set {VARIABLE}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        raise CacheError(f"others can write to the cache folder {folder} (mode {mode:o}): chmod 700 it, or set {VARIABLE}")
