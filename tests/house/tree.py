"""The source tree as the house tests look at it."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"attnspec": "attnspec", **{f"attnspec.{name}": name for name in ("lowering", "backends", "runtime", "emulator")}}
PASSING = {"__pycache__", ".venv", ".git", ".ruff_cache", ".pytest_cache", ".hypothesis", "out", "build", "dist"}
TEXT = {".py", ".pyi", ".md", ".txt", ".toml", ".attn", ".lark", ".json", ""}


@cache
def sources() -> tuple[Path, ...]:
    """Python files of the packages."""
    found = (path for folder in FOLDERS.values() for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in found if "__pycache__" not in path.parts))


def files_of_tests() -> list[Path]:
    """Python files of the tests."""
    return sorted(path for path in (ROOT / "tests").rglob("*.py") if "__pycache__" not in path.parts)


def texts() -> Iterator[Path]:
    """Files of the tree that hold text and were written by hand or kept for good."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        is_passing = PASSING & set(inside) or any(part.endswith(".egg-info") for part in inside)
        if path.is_file() and not path.is_symlink() and not is_passing and path.suffix in TEXT:
            yield path


def name_of(path: Path) -> str:
    """Dotted import name of a source file."""
    top, *rest = path.relative_to(ROOT).with_suffix("").parts
    package = "attnspec" if top == "attnspec" else f"attnspec.{top}"
    parts = [package, *(part for part in rest if part != "__init__")]
    return ".".join(parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def imports_of(path: Path) -> set[str]:
    """Dotted names that a file imports when it runs; what stands under `if TYPE_CHECKING` does not count."""
    found: set[str] = set()
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
    return found
