"""The variants that come with attnspec: one file each, its first line what it is and its second where it is from."""

from importlib.resources import files
from pathlib import Path

SUFFIX = ".attn"


def names() -> tuple[str, ...]:
    """Names of the variants, in order."""
    return tuple(sorted(item.name[: -len(SUFFIX)] for item in files(__name__).iterdir() if item.name.endswith(SUFFIX)))


def path(name: str) -> Path:
    """The file of a variant; KeyError, with the names there are, for another name."""
    if name not in names():
        raise KeyError(f"there is no variant {name!r}; there are {', '.join(names())}")
    return Path(str(files(__name__) / f"{name}{SUFFIX}"))


def describe(name: str) -> tuple[str, str]:
    """The one-line description and the source of a variant."""
    first, second = path(name).read_text("utf-8").splitlines()[:2]
    return first.removeprefix("# "), second.removeprefix("# source: ")
