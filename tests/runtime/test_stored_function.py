"""Host functions of kernels from the cache."""

import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.backends.emitted import Emitted, Module
from attnspec.runtime import stored_function
from attnspec.runtime.stored_function import function_of

from attnspec.errors import TargetError


class Compiler:
    """Stands for the kernel compiler and its loader; a function of it gives the bytes it was loaded from."""

    def __init__(self) -> None:
        self.calls = 0

    def assemble(self, emitted: Emitted, folder: Path) -> bytes:
        self.calls += 1
        return emitted.modules[0].text.encode()

    def load(self, path: Path):
        blob = path.read_bytes()
        return lambda: blob


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    fake = Compiler()
    monkeypatch.setattr(stored_function, "assemble_object", fake.assemble)
    monkeypatch.setattr(stored_function, "load_object", fake.load)
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return fake


def emitted(text: str = "one\n") -> Emitted:
    return Emitted("sm90", (Module("forward", text, {}),), {"name": "k", "arguments": []})


def test_what_was_compiled_once_is_loaded_again(compiler: Compiler) -> None:
    assert function_of(emitted())() == function_of(emitted())() == b"one\n"
    assert function_of(emitted("two\n"))() == b"two\n"
    assert compiler.calls == 2


def test_a_damaged_object_is_compiled_again(compiler: Compiler, tmp_path: Path) -> None:
    function_of(emitted())
    (found,) = (tmp_path / "cache").glob("object-*/kernel.o")
    found.write_bytes(b"garbage")
    assert function_of(emitted())() == b"one\n"
    assert compiler.calls == 2


def test_without_a_usable_cache_it_is_compiled(compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "file"))
    assert function_of(emitted())() == b"one\n"


def test_a_missing_package_is_named(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "tvm_ffi" else object())
    with pytest.raises(TargetError, match="kernels on a GPU need apache-tvm-ffi: pip install apache-tvm-ffi"):
        function_of(emitted())


SECOND = """
import sys, torch
from attnspec import stages
from attnspec.runtime import cache_key, stored_function
import attnspec
cache_key.own_digest = lambda: "pinned"  # a checkout that is edited between the two processes is another compiler
def refuse(*_): raise SystemExit("compiled again")
if len(sys.argv) > 1:
    stored_function.assemble_object = refuse
attention = attnspec.build("attention dense\\nhead_dim 64\\n")
program = stages.make_kernel(attention, "sm90").program
q = torch.zeros(1, 5, 2, 64, dtype=torch.bfloat16)
try:
    program.function(q, q, q, q, torch.zeros(1, 2, 5), 0, 0, 5, 5, 132)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_second_process_loads_the_real_object_and_its_function_reads_its_arguments(tmp_path: Path) -> None:
    for more in ((), ("again",)):
        environment = {"ATTNSPEC_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin"}
        found = subprocess.run([sys.executable, "-c", SECOND, *more], capture_output=True, text=True, check=True, env=environment)
        assert "device" in found.stdout  # tensors on the CPU are refused, by the function itself
