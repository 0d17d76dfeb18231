"""What a process has compiled, the next one reads; nothing is lost where there is no cache."""

from pathlib import Path

import pytest
from attnspec.backends.emitted import Emitted, Module
from attnspec.runtime import disassemble, stored_binary
from attnspec.runtime.binary import Binary
from attnspec.runtime.stored_binary import assemble_or_find

NAME = "forward"


class Compiler:
    """Stands for the kernel compiler: its products hold the path of the source, as line tables do."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, emitted: Emitted, folder: Path, sass: bool = False) -> Binary:
        self.calls += 1
        module = emitted.modules[0]
        (folder / module.file_name).write_text(module.text)
        path = folder / module.file_name
        return Binary(
            "k", f'.file 1 "{path}"', b"\x7fELF" + bytes(path) + b"\0end", f"// {path}" if sass else None, 128, 0, object()
        )


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    fake = Compiler()
    monkeypatch.setattr(stored_binary, "assemble", fake)
    monkeypatch.setattr(disassemble, "find_disassembler", lambda: Path("nvdisasm"))
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return fake


def emitted(text: str = "one\n") -> Emitted:
    return Emitted("sm100", (Module(NAME, text, {}),), {"name": "k", "arguments": []})


def folder(tmp_path: Path, name: str) -> Path:
    found = tmp_path / name
    found.mkdir()
    return found


def test_second_compilation_is_read_from_the_cache(compiler: Compiler, tmp_path: Path) -> None:
    first = assemble_or_find(emitted(), folder(tmp_path, "a"))
    second = assemble_or_find(emitted(), folder(tmp_path, "b"))
    assert compiler.calls == 1
    assert (first.registers, first.frame_bytes) == (second.registers, second.frame_bytes) == (128, 0)
    assert (tmp_path / "b" / "forward.py").read_text() == "one\n"


def test_line_tables_point_to_the_folder_asked_for(compiler: Compiler, tmp_path: Path) -> None:
    for name in ("a", "b"):
        place = folder(tmp_path, name)
        binary = assemble_or_find(emitted(), place, sass=True)
        assert binary.ptx == f'.file 1 "{place}/forward.py"'
        assert binary.sass == f"// {place}/forward.py"
        start, end = binary.cubin.index(bytes(place)), binary.cubin.index(b"/forward.py\0end")
        assert set(binary.cubin[start + len(bytes(place)) : end]) <= {ord("/")}


def test_path_too_long_for_a_cubin_leaves_it_whole(compiler: Compiler, tmp_path: Path) -> None:
    short = assemble_or_find(emitted(), folder(tmp_path, "a")).cubin
    long = assemble_or_find(emitted(), folder(tmp_path, "b" * 200)).cubin
    assert len(long) == len(short)
    assert long.endswith(b"/forward.py\0end")


def test_another_text_is_another_kernel(compiler: Compiler, tmp_path: Path) -> None:
    assemble_or_find(emitted(), folder(tmp_path, "a"))
    assemble_or_find(emitted("two\n"), folder(tmp_path, "b"))
    assemble_or_find(emitted(), folder(tmp_path, "c"), sass=True)
    assert compiler.calls == 3


def test_sass_without_a_disassembler_is_an_error_for_a_kernel_in_the_cache_too(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, sass in enumerate((False, True)):
        assemble_or_find(emitted(), folder(tmp_path, f"warm{number}"), sass)
    monkeypatch.setattr(disassemble, "find_disassembler", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="nvidia-cuda-nvdisasm"):
        assemble_or_find(emitted(), folder(tmp_path, "a"), sass=True)
    assert assemble_or_find(emitted(), folder(tmp_path, "b")).sass is None


def test_damaged_entry_is_compiled_again(compiler: Compiler, tmp_path: Path) -> None:
    whole = assemble_or_find(emitted(), folder(tmp_path, "a"))
    (found,) = (tmp_path / "cache").glob("binary-*/cubin")
    found.write_bytes(b"garbage")
    again = assemble_or_find(emitted(), folder(tmp_path, "b"))
    assert compiler.calls == 2
    assert len(again.cubin) == len(whole.cubin)


def test_without_a_usable_cache_it_is_compiled(compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "file"))
    assert assemble_or_find(emitted(), folder(tmp_path, "a")).ptx
    assert compiler.calls == 1


def test_nothing_but_entries_stays_in_the_cache(compiler: Compiler, tmp_path: Path) -> None:
    assemble_or_find(emitted(), folder(tmp_path, "a"))
    assert [path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()] == ["binary"]
