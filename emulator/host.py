"""The host side of a compiled CuTe-DSL function, run without a GPU; every private entry point of the DSL is in this file.

The compiled function's host module is put into a fresh execution engine whose CUDA symbols are callbacks of ours: they answer as
one device would, and record each launch. The kernel parameters come from the genuine host code, finished TMA descriptors too.
Found in nvidia-cutlass-dsl 4.8.1 (EMULATOR section 2): the host module's undefined symbols; the launch configuration
`{u32 grid[3]; u32 block[3]; u64 shared; void* stream; attribute* attributes; u32 count}`, attributes of 72 bytes
`{u32 id; u32 pad; u8 value[64]}`. With --enable-tvm-ffi the module has another function, `__tvm_ffi_NAME`, which checks arguments
and calls the same host function; then that one is called, through the package tvm_ffi.
"""

import ctypes
import importlib.metadata
import struct
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attnspec.emulator.cubin import registers_at
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.host_arguments import INT, POINTER, argument_types, cells_of

PACKAGE, VERSION = "nvidia-cutlass-dsl", "4.8.1"
CLUSTER_ATTRIBUTE = 4
ATTRIBUTE_BYTES = 72
SHARED_BYTES_OF_DEVICE = 232448  # cudaDevAttrMaxSharedMemoryPerBlockOptin (97) of sm_90 and sm_100
HANDLE = 0x5EED


@dataclass(frozen=True)
class Recorded:
    """One call of cudaLaunchKernelEx. arguments: addresses of the kernel's parameters are read at once, by size. registers: a
    thread's at the start, if the compiled image tells."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[bytes, ...]
    registers: int | None


@dataclass
class Recorder:
    """The recording runtime. sizes: bytes of each parameter, by kernel name; registers: of a thread."""

    sizes: dict[str, tuple[int, ...]]
    launches: list[Recorded] = field(default_factory=list)
    error: BaseException | None = None
    kernels: list[str] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)

    def symbols(self) -> dict[str, Any]:
        """ctypes callbacks by symbol; they must outlive the engine."""
        signatures = {
            "_cudaLibraryLoadData": (self.load_library, 4 * [POINTER] + [INT, POINTER, POINTER, INT]),
            "_cudaLibraryGetKernel": (self.get_kernel, [POINTER, POINTER, POINTER]),
            "_cuKernelGetAttribute": (self.attribute, [POINTER, INT, POINTER, INT]),
            "_cudaDeviceGetAttribute": (self.device_attribute, [POINTER, INT, INT]),
            "_cudaGetDevice": (self.device, [POINTER]),
            "_cudaSetDevice": (self.agree, [INT]),
            "_cudaKernelSetAttributeForDevice": (self.agree, [POINTER, INT, INT, INT]),
            "_cudaFuncSetAttribute": (self.agree, [POINTER, INT, INT]),
            "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (self.occupancy, [POINTER, POINTER, INT, ctypes.c_int64]),
            "_cudaLaunchKernelEx": (self.launch, [POINTER, POINTER, POINTER]),
            "_cudaLaunchKernel": (self.refuse, [POINTER] + 6 * [INT] + [POINTER, ctypes.c_int64, POINTER]),
            "cuda_dialect_init_library_once": (self.agree, 4 * [POINTER]),
            "cuda_dialect_unload_library_once": (self.agree, [POINTER]),
            "cuda_dialect_get_error_name": (self.agree, [INT]),
            "CuteDSLRT_TVMFFISetRaisedCudaError": (self.cuda_error, [POINTER, INT]),
            "CuteDSLRT_TVMFFISetRaisedCudaLaunchError": (self.cuda_error, [POINTER, INT]),
        }
        return {name: ctypes.CFUNCTYPE(INT, *types)(self.guarded(call)) for name, (call, types) in signatures.items()}

    def guarded(self, call: Any) -> Any:
        """An exception must not reach compiled code: it is kept, and raised once the host function is back."""

        def safe(*arguments: Any) -> int:
            try:
                return call(*arguments) or 0
            except BaseException as error:
                self.error = self.error or error
                return 0

        return safe

    def load_library(self, library: int, image: int, *_: Any) -> None:
        """cudaLibraryLoadData"""
        POINTER.from_address(library).value = HANDLE
        self.registers |= registers_at(image)

    def get_kernel(self, kernel: int, library: int, name: int) -> None:
        """cudaLibraryGetKernel: the handle is 1 + the kernel's number."""
        self.kernels.append(ctypes.string_at(name).decode())
        POINTER.from_address(kernel).value = len(self.kernels)

    def attribute(self, result: int, *_: Any) -> None:
        """cuKernelGetAttribute: asked for the static shared memory, which is not counted here."""
        INT.from_address(result).value = 0

    def device_attribute(self, result: int, *_: Any) -> None:
        """cudaDeviceGetAttribute"""
        INT.from_address(result).value = SHARED_BYTES_OF_DEVICE

    def device(self, result: int) -> None:
        """cudaGetDevice"""
        INT.from_address(result).value = 0

    def occupancy(self, result: int, *_: Any) -> None:
        """cudaOccupancyMaxActiveBlocksPerMultiprocessor"""
        INT.from_address(result).value = 1

    def cuda_error(self, _: int, status: int) -> None:
        """The host function of a kernel for TVM-FFI met a CUDA error."""
        raise EmulatorError(f"the host function gives CUDA error {status}")

    def agree(self, *_: Any) -> None:
        """A setting that changes nothing here."""

    def refuse(self, *_: Any) -> None:
        """A launch of another kind."""
        raise EmulatorError("the host code launches by cudaLaunchKernel: only cudaLaunchKernelEx is recorded")

    def launch(self, configuration: int, kernel: int, arguments: int) -> None:
        """cudaLaunchKernelEx: read the configuration and every parameter at once; they live on the host's stack."""
        raw = ctypes.string_at(configuration, 52)
        numbers = struct.unpack_from("<6IQQQI", raw)
        grid, block, shared, attributes, count = numbers[:3], numbers[3:6], numbers[6], numbers[8], numbers[9]
        cluster = (1, 1, 1)
        for position in range(count):
            identifier = ctypes.c_uint32.from_address(attributes + position * ATTRIBUTE_BYTES).value
            if identifier == CLUSTER_ATTRIBUTE:
                cluster = struct.unpack("<3I", ctypes.string_at(attributes + position * ATTRIBUTE_BYTES + 8, 12))
        name = self.kernels[kernel - 1]
        if name not in self.sizes:
            raise EmulatorError(f"the host code launches `{name}`, which is not in the compiled PTX")
        pointers = [POINTER.from_address(arguments + 8 * position).value or 0 for position in range(len(self.sizes[name]))]
        values = tuple(ctypes.string_at(at, size) for at, size in zip(pointers, self.sizes[name], strict=True))
        self.launches.append(Recorded(name, grid, block, cluster, shared, values, self.registers.get(name)))


def require_version() -> None:
    """The entry points below are private to one version."""
    found = importlib.metadata.version(PACKAGE)
    if found != VERSION:
        raise EmulatorError(f"the emulator launches kernels of {PACKAGE} {VERSION}; {found} is installed")


def ptx_of(compiled: Any) -> str:
    """The PTX kept with a compiled function."""
    text = compiled.artifacts.PTX if getattr(compiled, "artifacts", None) is not None else None
    if not text:
        raise EmulatorError("the function was compiled without its PTX: add --keep-ptx to the compile options")
    return text.decode() if isinstance(text, bytes) else text


@dataclass(eq=False)
class Host:
    """A compiled function's host module in an engine of ours. types: LLVM types of its arguments; keep: what the engine calls.
    foreign: the function for TVM-FFI, if it has one."""

    engine: Any
    recorder: Recorder
    types: list[str]
    keep: dict[str, Any]
    foreign: Any = None


_hosts: "weakref.WeakKeyDictionary[Any, Host]" = weakref.WeakKeyDictionary()


def host_of(compiled: Any, sizes: dict[str, tuple[int, ...]]) -> Host:
    """Made once for a compiled function."""
    from cutlass._mlir.execution_engine import ExecutionEngine  # pyright: ignore[reportMissingImports]

    found = _hosts.get(compiled)
    if found is not None:
        return found
    if getattr(compiled, "ir_module", None) is None:
        raise EmulatorError("the function has no host module: it was loaded from a file; compile it in this process")
    text = str(compiled.ir_module)
    recorder = Recorder(sizes)
    engine = ExecutionEngine(compiled.ir_module, opt_level=0, shared_libs=[])
    symbols = recorder.symbols()
    entry = f"__tvm_ffi_{compiled.function_name}"
    addresses = {name: ctypes.cast(callback, POINTER) for name, callback in symbols.items()}
    if f"@{entry}(" in text:
        from attnspec.emulator.tvm_ffi_host import addresses_of_library

        addresses |= addresses_of_library()
    for name, address in addresses.items():
        engine.raw_register_runtime(name, address)
    library, device, status = POINTER(), INT(0), INT(0)
    to_library = ctypes.pointer(library)
    call(engine, "cuda_init", [ctypes.pointer(to_library), ctypes.pointer(status)])
    call(engine, "cuda_load_to_device", [ctypes.pointer(to_library), ctypes.pointer(device), ctypes.pointer(status)])
    found = Host(engine, recorder, argument_types(text, compiled.function_name), symbols)
    if f"@{entry}(" in text:
        from attnspec.emulator.tvm_ffi_host import function_of

        found.foreign = function_of(lambda cells: call(engine, entry, cells))
    _hosts[compiled] = found
    return found


def record(compiled: Any, arguments: Sequence[Any], sizes: dict[str, tuple[int, ...]]) -> list[Recorded]:
    """Run the host function of a compiled one and give the launches it makes.

    arguments: torch CPU tensors, numbers, None for the stream, or DSL values that marshal themselves; of a function for TVM-FFI
    what it takes.
    """
    require_version()
    host = host_of(compiled, sizes)
    recorder, status = host.recorder, INT(0)
    recorder.launches, recorder.error, recorder.sizes = [], None, sizes
    if host.foreign is not None:
        from attnspec.emulator.tvm_ffi_host import run

        run(host.foreign, arguments, recorder)
    else:
        cells = cells_of(host.types, arguments)
        call(host.engine, f"_mlir_ciface_{compiled.function_name}", [*cells, ctypes.pointer(status)])
    if recorder.error is not None:
        raise recorder.error
    if status.value:
        raise EmulatorError(f"the host function gives CUDA error {status.value}")
    return recorder.launches


def call(engine: Any, name: str, cells: Sequence[Any]) -> None:
    """Call a function by its packed form: an array of pointers to arguments, the result last."""
    address = engine.raw_lookup(name)
    if not address:
        raise EmulatorError(f"the host module has no function {name}")
    packed = (POINTER * len(cells))(*(ctypes.cast(cell, POINTER) for cell in cells))
    ctypes.CFUNCTYPE(None, POINTER)(address)(packed)
