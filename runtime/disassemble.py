"""A cubin as SASS, by NVIDIA's own disassembler (the package nvidia-cuda-nvdisasm, or a CUDA toolkit)."""

import importlib.util
import os
import subprocess
from pathlib import Path

from attnspec.errors import TargetError

PROGRAM = "nvdisasm"


def find_disassembler() -> Path | None:
    """Where it is: below CUDA_HOME, or in the package."""
    places = [Path(home) / "bin" / PROGRAM for home in [os.environ.get("CUDA_HOME")] if home]
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:  # there is no package `nvidia` at all
        spec = None
    places += [Path(place) / "bin" / PROGRAM for place in (spec.submodule_search_locations or [] if spec else [])]
    return next((place for place in places if place.is_file()), None)


def require_disassembler() -> Path:
    """Where it is; ModuleNotFoundError names the package where it is not."""
    program = find_disassembler()
    if program is None:
        raise ModuleNotFoundError("SASS needs a disassembler: pip install nvidia-cuda-nvdisasm")
    return program


def disassemble(cubin: bytes, folder: Path) -> str:
    """The text of a cubin; folder: for a file of a moment."""
    program = require_disassembler()
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    done = subprocess.run([str(program), "--print-code", str(path)], capture_output=True, text=True, check=False)
    path.unlink()
    if done.returncode:
        raise TargetError(f"{program} cannot read the cubin: {done.stderr.strip()[:500]}")
    return done.stdout
