"""What a compiled kernel is found by: the variant's meaning, the target, and the versions of what made it."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from attnspec.runtime.canonical import canonical

from attnspec.language.spec import Spec

SOURCES = (".py", ".attn", ".lark", ".json")


def cache_key(spec: Spec, target: str, options: Mapping[str, object], packages: Sequence[str] = ()) -> str:
    """A hexadecimal digest.

    options: JSON types; all that was chosen at compile time beyond the spec (pass, tile, architecture).
    packages: distributions whose version changes what is made, such as the kernel compiler.
    """
    parts = [canonical(spec), target, dict(options), versions(tuple(packages))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions by distribution, and of this package its very sources."""
    found = {name: installed_version(name) for name in packages}
    return {**found, "python": f"{sys.version_info.major}.{sys.version_info.minor}", "attnspec": own_digest()}


@cache
def installed_version(name: str) -> str:
    """Version of a distribution, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


@cache
def own_digest() -> str:
    """Digest of the compiler's sources: an edited checkout never finds what it made before the edit."""
    digest = hashlib.sha256()
    for package in ("attnspec.language", "attnspec.lowering", "attnspec.backends", "attnspec.runtime"):
        for path in package_files(package):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def package_files(package: str) -> list[Path]:
    """Source files of a package, in a fixed order."""
    module = sys.modules.get(package) or __import__(package, fromlist=["__path__"])
    root = Path(next(iter(module.__path__)))
    return sorted(path for path in root.rglob("*") if path.suffix in SOURCES and "__pycache__" not in path.parts)
