"""A probe: one PTX kernel, the memory it starts from and the memory that is kept afterwards.

The same probe runs on a GPU (`device.py`) and in the emulator; nothing in it depends on either.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"


@dataclass(frozen=True)
class Buffer:
    """Device memory holding `initial` before the launch; a parameter of type u64. `kept` buffers are results."""

    name: str
    initial: np.ndarray
    kept: bool = False


@dataclass(frozen=True)
class TensorMap:
    """A 128-byte tiled tensor map over a buffer, as cuTensorMapEncodeTiled makes it; innermost dimension first.

    kind: name of the driver's element type (`BFLOAT16`); swizzle: span in bytes (0, 32, 64, 128);
    strides: bytes of dimensions 1 and up.
    """

    buffer: str
    kind: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    steps: tuple[int, ...] = ()
    interleave: int = 0
    promotion: int = 2
    fill_nan: bool = False


@dataclass(frozen=True)
class Im2col(TensorMap):
    """A tensor map of cuTensorMapEncodeIm2col. box: channels of a pixel, pixels of a column; lower, upper: corners of the box of
    pixels, without channels and images."""

    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()


@dataclass(frozen=True)
class Early(TensorMap):
    """A tensor map that starts so many bytes before its buffer."""

    before: int = 0


@dataclass(frozen=True)
class Probe:
    """One launch of entry `probe`. `section` names what the probe checks (PTX ISA chapter, or FACTS of the silicon).

    whole: the results are too large to keep: a digest and every 4096th word stand for them.
    """

    name: str
    section: str
    ptx: str
    parameters: tuple[Buffer | TensorMap, ...]
    grid: int = 1
    block: int = 128
    cluster: int = 1
    dynamic_shared: int = 0
    whole: bool = False

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(p for p in self.parameters if isinstance(p, Buffer))

    @property
    def fingerprint(self) -> str:
        """Changes when the kernel, its launch or its inputs change: stored results are then out of date."""
        digest = hashlib.sha256(self.ptx.encode())
        digest.update(repr((self.grid, self.block, self.cluster, self.dynamic_shared)).encode())
        for parameter in self.parameters:
            if isinstance(parameter, TensorMap):
                digest.update(repr(parameter).encode())
            elif self.whole:
                digest.update(repr(parameter.initial.shape).encode())
            else:
                digest.update(parameter.initial.tobytes())
        return digest.hexdigest()[:16]


def entry(names: list[str], body: str, shared: str = "", maps: tuple[str, ...] = ()) -> str:
    """PTX text of `probe`: u64 parameter p_NAME loaded into %NAME as a global address; maps arrive by value as %NAME.

    Every body finds %thread, %lane, %warp, %cta and %index (over the whole grid), and scratch %r0-31, %d0-31, %h0-15, %q0-7.
    """
    declared = [f".param .align 64 .b8 p_{n}[128]" if n in maps else f".param .u64 p_{n}" for n in names]
    loads = []
    for name in names:
        if name in maps:
            loads.append(f"mov.b64 %{name}, p_{name};\ncvta.param.u64 %{name}, %{name};")
        else:
            loads.append(f"ld.param.u64 %{name}, [p_{name}];\ncvta.to.global.u64 %{name}, %{name};")
    registers = "".join(f".reg .b64 %{n};\n" for n in names)
    return f"""{HEADER}
{shared}
.visible .entry probe({", ".join(declared)})
{{
.reg .b32 %thread, %lane, %warp, %cta, %index;
.reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b16 %h<16>; .reg .pred %q<8>;
{registers}{chr(10).join(loads)}
mov.u32 %thread, %tid.x;
mov.u32 %lane, %laneid;
shr.u32 %warp, %thread, 5;
mov.u32 %cta, %ctaid.x;
mov.u32 %r0, %ntid.x;
mad.lo.u32 %index, %cta, %r0, %thread;
{body}
ret;
}}
"""


def read_barrier(address: str, target: str, place: str = "%out") -> str:
    """The mbarrier word as memory holds it now; `place` is global memory that the caller overwrites afterwards.

    The address takes a way through memory because ptxas moves plain loads of a barrier above the operations on it.
    """
    return f"""mov.b32 %r30, {address};
st.volatile.global.b32 [{place}], %r30;
fence.acq_rel.cta;
ld.volatile.global.b32 %r30, [{place}];
ld.volatile.shared.b64 {target}, [%r30];
fence.acq_rel.cta;"""
