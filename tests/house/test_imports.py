"""What is imported when, and by which name."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import FOLDERS, ROOT

HEAVY = {"torch", "cutlass", "numpy", "networkx"}


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS.values() if folder != "attnspec" and (ROOT / folder).is_dir()])
def test_a_folder_imported_by_its_bare_name_says_how_to_import_it(folder: str) -> None:
    done = run("-c", f"import {folder}")
    assert f"ImportError: import attnspec.{folder}, not the bare folder name" in done.stderr


def modules_after(arguments: str) -> set[str]:
    """Top-level modules loaded by a command of attnc."""
    code = (
        "import sys; from attnspec.cli.main import main\n"
        f"code = main({arguments.split()!r})\n"
        "print('LOADED', code, *{name.partition('.')[0] for name in sys.modules})"
    )
    done = run("-c", code)
    last = done.stdout.strip().splitlines()[-1].split()
    assert last[0] == "LOADED", done.stderr
    return set(last[1:])


@pytest.mark.parametrize(
    "arguments",
    ["check gemma2_local", "check gemma2_local --json", "check no_such_file", "-h", "compile -h", "run -h", "explain -h",
     "show gemma2_local --stage spec", "run no_such_file --target sm100", "compile no_such_file", "run gemma2_local -D windw=3"],
)  # fmt: skip
def test_nothing_heavy_is_loaded_before_a_spec_is_known_to_be_good(arguments: str) -> None:
    assert not HEAVY & modules_after(arguments)


def test_explaining_needs_neither_torch_nor_the_kernel_compiler() -> None:
    assert not {"torch", "cutlass"} & modules_after("explain gemma2_local")


def test_emitting_source_needs_neither_torch_nor_the_kernel_compiler(tmp_path: Path) -> None:
    assert not {"torch", "cutlass"} & modules_after(f"compile gemma2_local --emit source -o {tmp_path}/out")
