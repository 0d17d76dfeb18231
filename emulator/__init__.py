"""PTX of CuTe-DSL kernels, executed on a CPU: `launch` for compiled functions, `run_ptx` for text. Imports nothing of ours."""

if __name__ != "attnspec.emulator":
    raise ImportError("import attnspec.emulator, not the bare folder name")

from attnspec.emulator.errors import EmulatorError, UnknownInstruction
from attnspec.emulator.launch import launch, run_ptx
from attnspec.emulator.report import Fault, FaultsFound, Report

__all__ = ["EmulatorError", "Fault", "FaultsFound", "Report", "UnknownInstruction", "launch", "run_ptx"]
