"""Where a kernel's variables and parameters lie."""

from dataclasses import dataclass

from attnspec.emulator.machine.shared_memory import RESERVED
from attnspec.emulator.ptx.operands import Kernel

# Generic addresses are those of this process; other spaces get windows that no process address reaches.
SHARED_WINDOW, PARAMETER_WINDOW, LOCAL_WINDOW, CONSTANT_WINDOW = 1 << 56, 2 << 56, 3 << 56, 4 << 56
WINDOW_BITS = 56


@dataclass(frozen=True)
class Layout:
    """Offsets by symbol: shared from the start of the window, the others from 0. shared_bytes: without the reserved part."""

    shared: dict[str, int]
    local: dict[str, int]
    constant: dict[str, int]
    parameters: dict[str, int]
    shared_bytes: int
    local_bytes: int
    constant_bytes: bytes
    parameter_bytes: int
    initial_shared: tuple[tuple[int, bytes], ...] = ()


def layout_of(kernel: Kernel, dynamic: int) -> Layout:
    """Static variables first, then dynamic shared memory, all aligned as declared. dynamic: its bytes."""
    shared: dict[str, int] = {}
    at = RESERVED
    variables = [one for one in kernel.variables if one.space == "shared"]
    for one in sorted(variables, key=lambda one: one.size == 0):
        at = aligned(at, one.align)
        shared[one.name] = at
        at += one.size
    local, local_bytes = place(kernel, "local")
    constant, constant_bytes = place(kernel, "const")
    data = bytearray(constant_bytes)
    for one in kernel.variables:
        if one.space == "const":
            data[constant[one.name] : constant[one.name] + len(one.initial)] = one.initial
    parameters: dict[str, int] = {}
    end = 0
    for one in kernel.parameters:
        end = aligned(end, one.align)
        parameters[one.name] = end
        end += one.size
    return Layout(shared, local, constant, parameters, at - RESERVED + dynamic, local_bytes, bytes(data), end)


def place(kernel: Kernel, space: str) -> tuple[dict[str, int], int]:
    """Offsets of the variables of a space, and the bytes they take."""
    offsets: dict[str, int] = {}
    at = 0
    for one in kernel.variables:
        if one.space == space:
            at = aligned(at, one.align)
            offsets[one.name] = at
            at += one.size
    return offsets, at


def aligned(offset: int, align: int) -> int:
    """Rounded up."""
    return -(-offset // align) * align
