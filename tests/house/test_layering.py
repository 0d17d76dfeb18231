"""Who may import whom: the arrows of the house, and what each folder may take from outside."""

import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT, imports_of, name_of, sources

EMISSION = {"attnspec.language", "attnspec.lowering", "attnspec.backends.cute.emit"} | {
    f"attnspec.backends.{name}" for name in ("source", "emitted", "expression")
}
KERNELS = {"attnspec.backends.cute.kernel"}
# By the longest name that fits: what of ours, and which other packages.
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "attnspec.language": ({"attnspec.language"}, {"lark"}),
    "attnspec.variants": (set(), set()),
    "attnspec.errors": (set(), set()),
    "attnspec.lowering": ({"attnspec.language", "attnspec.lowering"}, {"networkx", "numpy"}),
    "attnspec.backends": ({"attnspec.language", "attnspec.lowering", "attnspec.backends"}, {"numpy"}),
    "attnspec.backends.reference": (
        {"attnspec.language", "attnspec.lowering", "attnspec.backends"},
        {"torch"},
    ),
    "attnspec.backends.cute.emit": (EMISSION, set()),
    "attnspec.backends.cute.kernel": ({"attnspec.backends.cute.kernel"}, {"cutlass", "cuda"}),
    "attnspec.backends.sm100.emit": (EMISSION | {"attnspec.backends.sm100.emit"}, set()),
    "attnspec.backends.sm100.kernel": (KERNELS | {"attnspec.backends.sm100.kernel"}, {"cutlass", "cuda"}),
    "attnspec.backends.sm90.emit": (EMISSION | {"attnspec.backends.sm90.emit"}, set()),
    "attnspec.backends.sm90.kernel": (KERNELS | {"attnspec.backends.sm90.kernel"}, {"cutlass", "cuda"}),
    "attnspec.runtime": (
        {
            "attnspec.language",
            "attnspec.lowering",
            "attnspec.backends",
            "attnspec.emulator",
            "attnspec.runtime",
            "attnspec.errors",
        },
        {"numpy", "torch"},
    ),
    "attnspec.runtime.assemble": (
        {"attnspec.language", "attnspec.backends", "attnspec.runtime"},
        {"cutlass"},
    ),
    "attnspec.emulator": ({"attnspec.emulator"}, {"numpy", "numba", "networkx"}),
    "attnspec.emulator.host": ({"attnspec.emulator"}, {"cutlass"}),
    "attnspec.emulator.tvm_ffi_host": ({"attnspec.emulator"}, {"tvm_ffi"}),
    "attnspec.stages": (
        {"attnspec.language", "attnspec.lowering", "attnspec.backends", "attnspec.runtime", "attnspec.errors"},
        set(),
    ),
    "attnspec.api": (
        {f"attnspec.{name}" for name in ("language", "runtime", "errors", "stages", "operators", "variants")},
        set(),
    ),
    "attnspec.operators": ({f"attnspec.{name}" for name in ("operators", "api", "runtime", "errors")}, {"torch"}),
    "attnspec.bench": ({"attnspec"}, {"torch", "flash_attn", "matplotlib"}),
    "attnspec.nn": ({"attnspec"}, {"torch"}),
    "attnspec.initial": ({"attnspec.language", "attnspec.lowering"}, {"torch"}),
    "attnspec.report": ({"attnspec"}, {"networkx", "numpy", "matplotlib"}),
    "attnspec.flex": (
        {"attnspec.language", "attnspec.runtime", "attnspec.errors", "attnspec.flex", "attnspec.api"},
        {"numpy", "torch"},
    ),
    "attnspec.integrations": ({"attnspec"}, {"torch", "transformers"}),
    "attnspec.distributed": ({"attnspec"}, {"numpy", "torch"}),
    "attnspec.cli": ({"attnspec"}, {"click", "numpy", "torch"}),
    "attnspec": ({"attnspec"}, set()),
}
USERS_OF_THE_COMPILER = (
    "attnspec.backends.cute.kernel",
    "attnspec.backends.sm100.kernel",
    "attnspec.backends.sm90.kernel",
    "attnspec.runtime.assemble",
    "attnspec.emulator.host",
)
GENERATES_TORCH = ("operations", "tiles")  # modules of backends/reference that emitted code imports


def is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def rule_of(name: str) -> tuple[set[str], set[str]]:
    """The rule of a module."""
    return ALLOWED[max((package for package in ALLOWED if is_in(name, package)), key=len)]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    ours, others = rule_of(name_of(path))
    for found in imports_of(path):
        top = found.partition(".")[0]
        if top == "attnspec":
            assert any(is_in(found, package) or (package == "attnspec") for package in ours), f"imports {found}"
        else:
            assert top in sys.stdlib_module_names or top in others, f"imports {found}"


def test_only_what_emitted_code_calls_imports_torch_among_the_backends() -> None:
    users = {path.stem for path in sources() if is_in(name_of(path), "attnspec.backends") and uses(path, "torch")}
    assert users == set(GENERATES_TORCH)


def test_the_kernel_compiler_is_imported_in_few_places() -> None:
    users = [name_of(path) for path in sources() if uses(path, "cutlass") or uses(path, "cuda")]
    assert [name for name in users if not any(is_in(name, place) for place in USERS_OF_THE_COMPILER)] == []


def uses(path: Path, package: str) -> bool:
    """Does a file import a package?"""
    return any(is_in(found, package) for found in imports_of(path))
