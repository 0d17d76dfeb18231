"""flash-attn-4, unmodified, with the emulator in place of its GPU: its own interface, caches, host code and autograd functions.

What it asks of a machine is stood in for: torch says that CPU tensors are CUDA tensors, as their memory stands for the device's;
the number of processors is given; quack's tuner, which needs triton and times kernels, is an empty one. Each function that it
compiles (by `cute.compile`, for TVM-FFI) keeps its PTX, and a call of it goes to `attnspec.emulator.launch`.
"""

import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from attnspec.emulator import launch
from attnspec.emulator.report import Report
from attnspec.emulator.tvm_ffi_host import OnDevice

PACKAGES = ("flash_attn", "quack", "tvm_ffi")
PROCESSORS, ARCHITECTURE = "FLASH_ATTENTION_NUM_SMS", "FLASH_ATTENTION_ARCH"


@dataclass
class Emulation:
    """What the calls of compiled functions give. launch: takes a compiled function and its arguments. calls: made so far."""

    launch: Callable[..., Report]
    calls: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def call(self, compiled: Any, arguments: tuple[Any, ...]) -> None:
        """Run one."""
        self.calls.append((compiled, arguments))
        self.reports.append(self.launch(compiled, *arguments))

    @property
    def faults(self) -> list[Any]:
        """Of all calls."""
        return [fault for report in self.reports for fault in report.faults]


_now: list[Emulation] = []
_settings: list[tuple[Any, ...]] = []


@dataclass(eq=False)
class Compiled:
    """What flash-attn-4 keeps in its caches."""

    function: Any

    def __call__(self, *arguments: Any) -> None:
        _now[-1].call(self.function, arguments)


@contextmanager
def emulated(
    run: Callable[..., Report] = launch, processors: int = 148, pairs: bool = True, architecture: str = "sm_100"
) -> Iterator[Emulation]:
    """Calls of flash-attn-4 in the block are emulated. pairs: of CTAs are allowed to work on one product."""
    import cutlass.cute as cute
    import cutlass.utils as cutlass_utils
    from cutlass.cutlass_dsl import CuTeDSL

    interface = load()
    compiler = cute.compile

    def compile_(*arguments: Any, options: str = "", **named: Any) -> Compiled:
        with tempfile.TemporaryDirectory() as folder:
            return Compiled(compiler(*arguments, options=f"{options} {kept} --dump-dir {folder}", **named))

    kept = f"--gpu-arch {architecture}a --keep-ptx --keep-cubin"
    hardware = cutlass_utils.HardwareInfo
    settings = (processors, pairs, architecture)
    emulation = Emulation(run)
    _now.append(emulation)
    with (
        mock.patch.dict(
            os.environ, {PROCESSORS: str(processors), ARCHITECTURE: architecture, "CUTE_DSL_ARCH": f"{architecture}a"}
        ),
        mock.patch.object(interface.utils, "_fa_disable_2cta_enabled", not pairs),
        mock.patch.object(interface.utils, "_fa_disable_2cta_cuda12", False),
        mock.patch.object(torch.Tensor, "is_cuda", property(lambda tensor: True)),
        mock.patch.object(cute, "compile", compile_),
        mock.patch.object(CuTeDSL._get_dsl().envar, "arch", f"{architecture}a"),
        mock.patch.object(hardware, "__init__", lambda self, *_, **__: None),
        mock.patch.object(hardware, "get_max_active_clusters", lambda self, size=1, *_, **__: processors // size),
        mock.patch.object(hardware, "get_device_multiprocessor_count", lambda self, *_, **__: processors),
    ):
        forget_other_settings(interface, settings)
        try:
            yield emulation
        finally:
            _now.pop()


def forget_other_settings(interface: Any, settings: tuple[Any, ...]) -> None:
    """Its caches do not know of what is stood in for."""
    if _settings and _settings != [settings]:
        for function in vars(interface).values():
            if hasattr(function, "compile_cache"):
                function.compile_cache.clear()
    _settings[:] = [settings]
    interface._get_device_arch.cache_clear()


def load() -> Any:
    """Its module, imported without triton."""
    tuner = types.ModuleType("quack.autotuner")
    tuner.__dict__.update(autotune=lambda *_, **__: lambda function: function, AutotuneConfig=lambda **named: named)
    sys.modules.setdefault("quack.autotuner", tuner)
    import flash_attn.cute.cute_dsl_utils as tensors
    import flash_attn.cute.interface as interface

    for module in (tensors, interface.utils):
        if module.from_dlpack is not from_dlpack:
            module.from_dlpack = from_dlpack
    return interface


def from_dlpack(tensor: Any, **named: Any) -> Any:
    """cute.runtime.from_dlpack, for a tensor on the device."""
    from cutlass.cute.runtime import from_dlpack as original

    return original(OnDevice(tensor), **named)
