"""The verifier proves what the passes make, and so may not be made of them."""

import ast
from pathlib import Path

import attnspec.lowering.schedule.verify as verifier

FOLDER = Path(str(verifier.__file__)).parent
PASSES = {
    "add_barriers", "assign_roles", "complete", "cost", "find_solution", "last_copy", "loop_problem", "make_choices", "modulo",
    "place", "place_buffers", "programs", "refuse_unsupported", "search", "set_backward_depths", "set_depths", "solution",
    "split_registers", "tile_graph",
}  # fmt: skip


def imported(module: str) -> set[str]:
    """Modules of this folder that one of them imports, directly or not."""
    found: set[str] = set()
    todo = [module]
    while todo:
        tree = ast.parse((FOLDER / f"{todo.pop()}.py").read_text())
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        new = {name.rpartition(".")[2] for name in names if name.startswith("attnspec.lowering.schedule.")} - found
        found |= new
        todo += new
    return found


def test_verifier_imports_no_pass() -> None:
    assert not imported("verify") & PASSES


def test_simulator_imports_no_proof() -> None:
    assert not {name for name in imported("simulate") if name.startswith("check") or name in ("verify", "order", "event_graph")}


def test_only_the_verifier_makes_a_schedule() -> None:
    makers = {path.stem for path in FOLDER.glob("*.py") if {"Schedule", "Proof"} & called(path)}
    assert makers == {"verify"}


def called(path: Path) -> set[str]:
    """Names that a module calls."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}
