"""What no file of the tree may hold, and how long its parts may be."""

import ast
import re
from pathlib import Path

from tests.house.tree import ROOT, files_of_tests, imports_of, sources, texts, tree_of

LONGEST_FILE, LONGEST_FUNCTION, LONGEST_ROLE = 400, 60, 150
ROLES = ("backends/sm100/kernel/roles", "backends/sm90/kernel/roles")

# A place of one machine, or a host that packages come from: the tree must work anywhere.
MACHINE = re.compile(r"(?<![\w.~$}/])/(home|root|Users|work|mnt|opt|private|srv)/\w")
HOST = re.compile(
    "|".join(["py" r"pi\.org", "python" r"hosted\.org", r"index-" "url", r"download\." "pytorch", r"registry\." "npm"])
)


def test_no_file_names_a_place_of_one_machine() -> None:
    assert [f"{path}: {found.group()}" for path in texts() for found in MACHINE.finditer(path.read_text("utf-8"))] == []


def test_no_file_names_a_package_host() -> None:
    assert [f"{path}: {found.group()}" for path in texts() for found in HOST.finditer(path.read_text("utf-8"))] == []


def test_imports_are_absolute_in_the_tests_too() -> None:
    for path in (*sources(), *files_of_tests()):
        imports_of(path)


def test_no_file_is_too_long() -> None:
    lengths = {path: path.read_text("utf-8").count("\n") for path in (*sources(), *files_of_tests())}
    assert {str(path): length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    assert [text for path in sources() for text in too_long(path)] == []


def too_long(path: Path) -> list[str]:
    """Functions past what their place allows."""
    inside = path.relative_to(ROOT).as_posix()
    limit = LONGEST_ROLE if inside.startswith(ROLES) else LONGEST_FUNCTION
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    return [f"{inside}: {name} has {length} lines" for name, length in lengths.items() if length > limit]
