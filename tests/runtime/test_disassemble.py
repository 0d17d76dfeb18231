"""SASS of any kernel, whatever the compiler calls its files."""

from pathlib import Path

import pytest
from attnspec.runtime import disassemble
from attnspec.runtime.assemble import assemble

from attnspec import stages, variants
from attnspec.errors import TargetError

needs_it = pytest.mark.skipif(disassemble.find_disassembler() is None, reason="there is no nvdisasm here")


@needs_it
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm90", "sm100"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_kernel_has_sass(direction, target: str, tmp_path: Path) -> None:
    analysed = stages.analyse(stages.read(variants.path("dense")))
    emitted = stages.emit(analysed, stages.place(stages.draw(analysed, direction, target), analysed, target))
    sass = assemble(emitted, tmp_path, sass=True).sass
    assert sass is not None and ("HGMMA" if target == "sm90" else "UTCHMMA") in sass


@needs_it
def test_what_is_no_cubin_is_an_error_with_the_disassemblers_words(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot read the cubin"):
        disassemble.disassemble(b"no cubin", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_disassembler_is_told_which_package_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassemble, "find_disassembler", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="nvidia-cuda-nvdisasm"):
        disassemble.disassemble(b"", tmp_path)
