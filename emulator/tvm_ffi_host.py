"""Calls of a host function that was compiled with --enable-tvm-ffi: its arguments are read and checked by its own code.

That code is given what the package tvm_ffi makes of Python values. CPU tensors are handed to it as tensors of a CUDA device,
whose memory they stand for: it refuses others.
"""

import ctypes
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from attnspec.emulator.errors import EmulatorError

POINTER = ctypes.c_void_p
INT = ctypes.c_int32
CPU, CUDA = 1, 2  # DLDeviceType
SYMBOLS = ("TVMFFIEnvGetStream", "TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts")
SAFE_CALL = ctypes.CFUNCTYPE(INT, POINTER, POINTER, INT, POINTER)  # TVMFFISafeCallType: handle, arguments, their number, result


def addresses_of_library() -> dict[str, Any]:
    """What such a host module calls of tvm_ffi and of C."""
    library, c = ctypes.CDLL(import_module("tvm_ffi.libinfo").find_libtvm_ffi()), ctypes.CDLL(None)
    found = {name: ctypes.cast(getattr(library, name), POINTER) for name in SYMBOLS}
    return found | {"printf": ctypes.cast(c.printf, POINTER)}


def function_of(call: Callable[[list[Any]], None]) -> Any:
    """A tvm_ffi function; its calls go to `call`, as pointers to arguments, the last to the result."""

    def passed_on(handle: int | None, arguments: int | None, count: int, result: int | None) -> int:
        status = INT(0)
        call([ctypes.pointer(cell) for cell in (POINTER(handle), POINTER(arguments), INT(count), POINTER(result), status)])
        return status.value

    callback = SAFE_CALL(passed_on)
    address = ctypes.cast(callback, POINTER).value
    assert address is not None
    return import_module("tvm_ffi").Function.__from_extern_c__(address, keep_alive_object=callback)


def run(function: Any, arguments: Sequence[Any], recorder: Any) -> None:
    """Call it; what its checks of arguments say is an error of the caller's."""
    try:
        function(*map(on_device, arguments))
    except (TypeError, ValueError, RuntimeError) as error:
        raise recorder.error or EmulatorError(f"the host function refuses its arguments: {error}") from error


def on_device(value: Any) -> Any:
    """Tensors of it as those of a CUDA device."""
    if hasattr(value, "data_ptr") and hasattr(value, "__dlpack__"):
        return OnDevice(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(on_device, value))
    return type(value)(map(on_device, value)) if isinstance(value, list | tuple) else value


class OnDevice:
    """A CPU tensor that says it lies on a CUDA device."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        """Its capsule, with the device changed: a DLTensor starts with a pointer and the kind of device."""
        capsule = self.tensor.detach().__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
        INT.from_address(address(capsule, b"dltensor") + 8).value = CUDA
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, 0)
