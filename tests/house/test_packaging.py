"""What pyproject.toml says of the packages is what lies on the disk."""

import subprocess
import sys
import tomllib
import venv
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.house.tree import FOLDERS, PASSING, ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = SETTINGS["tool"]["setuptools"]
LISTED = SETUPTOOLS["packages"]


def folder_of(package: str) -> Path:
    """Where a package's files lie."""
    for name in sorted(FOLDERS, key=len, reverse=True):
        if package == name or package.startswith(f"{name}."):
            return ROOT / FOLDERS[name] / Path(*package.removeprefix(name).strip(".").split("."))
    raise KeyError(package)


def on_disk() -> set[str]:
    """Packages by the folders that have an __init__.py."""
    found = set()
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / folder).parts
            if not PASSING & set(inside):
                found.add(".".join([name, *inside]))
    return found


def test_the_package_list_equals_the_folders_on_disk() -> None:
    assert set(LISTED) == on_disk()
    assert len(LISTED) == len(set(LISTED))


def test_the_folder_map_is_that_of_the_house() -> None:
    assert SETUPTOOLS["package-dir"] == {name: folder for name, folder in FOLDERS.items() if (ROOT / folder).is_dir()}


def test_every_python_file_lies_in_a_listed_package() -> None:
    folders = {folder_of(package) for package in LISTED}
    assert [path for folder in FOLDERS.values() for path in (ROOT / folder).rglob("*.py") if path.parent not in folders] == []


def test_every_data_file_of_a_package_is_shipped() -> None:
    patterns = SETUPTOOLS["package-data"]
    for package in LISTED:
        for path in folder_of(package).iterdir():
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                assert any(fnmatch(path.name, pattern) for pattern in patterns.get(package, [])), path


def test_type_checkers_see_every_folder_and_module_of_the_import_tree() -> None:
    links = {path.name for path in (ROOT / "tools/importtree/attnspec").iterdir()}
    own = {path.name for path in (ROOT / "attnspec").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    mapped = {folder for folder in FOLDERS.values() if folder != "attnspec" and (ROOT / folder).is_dir()}
    assert links == own | mapped
    assert all(path.resolve().exists() for path in (ROOT / "tools/importtree/attnspec").iterdir())


def test_the_version_stands_in_one_more_place_only() -> None:
    from attnspec import __version__

    assert SETTINGS["project"]["version"] == __version__


@pytest.mark.slow
def test_a_wheel_installed_in_an_empty_environment_checks_a_variant(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path)
    names = ZipFile(wheel).namelist()
    assert "attnspec/language/grammar.lark" in names
    assert "attnspec/variants/gemma2_local.attn" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "lowering/"))]
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*install, "--no-deps", wheel], check=True)
    subprocess.run([*install, "click", "lark"], check=True)
    attnc = subprocess.run([tmp_path / "venv/bin/attnc", "check", "gemma2_local"], capture_output=True, text=True, cwd=tmp_path)
    assert (attnc.returncode, attnc.stdout[:17]) == (0, "ok  gemma2_local:")


def built_wheel(folder: Path) -> Path:
    """A wheel of a copy of the tree, so that nothing is left in it."""
    import shutil

    copy = folder / "tree"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*PASSING, "*.egg-info", "tests"))
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, copy], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
