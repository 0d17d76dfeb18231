"""Arguments of a host function in the form that its own signature asks for: `{pointer, {dynamic sizes, dynamic strides}}` for a
tensor, numbers as they are, found in nvidia-cutlass-dsl 4.8.1 (EMULATOR section 2)."""

import ctypes
import re
from collections.abc import Sequence
from typing import Any

from attnspec.emulator.errors import EmulatorError

POINTER = ctypes.c_void_p
INT = ctypes.c_int32


def cells_of(types: list[str], arguments: Sequence[Any]) -> list[Any]:
    """A pointer to each argument in the form that the host function's signature asks for."""
    given = list(arguments) + [None] * (len(types) - len(arguments))
    if len(given) != len(types):
        raise EmulatorError(f"{len(arguments)} arguments given, the compiled function takes {len(types)}")
    return [cell_of(value, type, position) for position, (value, type) in enumerate(zip(given, types, strict=True))]


def argument_types(module: str, name: str) -> list[str]:
    """LLVM types of a function's arguments, from the text of the host module."""
    start = module.index(f"llvm.func @_mlir_ciface_{name}(") + len(f"llvm.func @_mlir_ciface_{name}(")
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(module[end], 0)
        end += 1
    pieces = re.split(r"%arg\d+: ", module[start : end - 1])[1:]
    return [piece.strip().rstrip(",") for piece in pieces]


def cell_of(value: Any, type: str, position: int) -> Any:
    """One argument's memory."""
    if hasattr(value, "__c_pointers__"):
        return POINTER(value.__c_pointers__()[0])
    if type.startswith("!llvm.struct<(ptr"):
        return tensor_cell(value, type, position)
    if type == "!llvm.ptr":
        return ctypes.pointer(POINTER(0 if value is None else int(value)))
    kinds = {"i1": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": INT, "i64": ctypes.c_int64}
    kinds |= {"f32": ctypes.c_float, "f64": ctypes.c_double}
    if type not in kinds or value is None:
        raise EmulatorError(f"argument {position}: {value!r} for a host argument of type {type}")
    return ctypes.pointer(kinds[type](value))


def tensor_cell(tensor: Any, type: str, position: int) -> Any:
    """`{pointer, {sizes, strides}}` of those that are dynamic: of fewer than all, the leading ones, as the last axis is the one
    that a kernel knows."""
    sizes, strides = dynamic_fields(type, position)
    shape, steps = tuple(tensor.shape), tuple(tensor.stride())
    if len(sizes) > len(shape) or len(strides) > len(steps):
        raise EmulatorError(f"argument {position}: a tensor of {len(shape)} dimensions for {type}")
    values = [*zip(sizes, shape, strict=False), *zip(strides, steps, strict=False)]
    fields: list[Any] = [("pointer", ctypes.c_uint64)]
    fields += [(f"v{at}", INT if bits == "32" else ctypes.c_int64) for at, (bits, _) in enumerate(values)]
    layout = _structure(tuple(fields))
    return ctypes.pointer(layout(tensor.data_ptr(), *(value for _, value in values)))


def dynamic_fields(type: str, position: int) -> tuple[list[str], list[str]]:
    """Bits of each dynamic size and of each dynamic stride: `!llvm.struct<(ptr<1>, struct<(SIZES, STRIDES)>)>`, each of the two
    `iN` or `struct<(iN, ...)>`."""
    match = re.fullmatch(r"!llvm\.struct<\(ptr(?:<\d+>)?(?:, struct<\((.*)\)>)?\)>", type)
    if match is None:
        raise EmulatorError(f"argument {position}: a tensor as {type} is not known; pass a cute tensor")
    parts = re.findall(r"struct<\([^()]*\)>|i\d+", match.group(1) or "")
    fields = [re.findall(r"i(\d+)", part) for part in parts]
    return (fields[0], fields[1]) if len(fields) == 2 else ([], [])


def _structure(fields: tuple[Any, ...]) -> Any:
    return type("Argument", (ctypes.Structure,), {"_fields_": list(fields)})
