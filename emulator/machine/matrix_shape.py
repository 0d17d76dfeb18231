"""Instruction descriptors of tcgen05.mma. PTX ISA 9.7.16.4; FACTS C2; bits of block scaling: CU arch/mma_sm100_desc.hpp."""

from dataclasses import dataclass
from functools import lru_cache

from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.matrix import PACKED

NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
FORMATS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": NARROW,
    "mxf4": {1: PACKED},
    "mxf4nvf4": {1: PACKED},
}
WIDTHS = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}  # K of an instruction
RESULTS = ("f16", "f32", "s32")
SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")


@dataclass(frozen=True)
class Shape:
    """kind: of the instruction; a, b: formats; *_mn: that operand is MN-major. scale: the format of the scale factors, ""
    without; a_scale, b_scale: the byte of a 32-bit column in which those of an instruction start."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    result: str
    negate_a: bool
    negate_b: bool
    a_mn: bool
    b_mn: bool
    saturates: bool = False
    scale: str = ""
    a_scale: int = 0
    b_scale: int = 0

    @property
    def k(self) -> int:
        """Elements along K of one instruction."""
        return WIDTHS[self.kind]


@lru_cache(maxsize=256)
def decode_shape(word: int, kind: str) -> Shape:
    """The fields, or a fault that names the wrong one."""
    scaled, allowed = kind in SCALED, FORMATS[kind]
    a, b = word >> 7 & 7, word >> 10 & 7
    result = 1 if scaled else word >> 4 & 3
    saturates = bool(word >> 3 & 1)
    if word & 7 or (saturates and kind != "i8") or (scaled and word >> 31):
        raise wrong(word, "sparsity, saturation of floats and K of 96 are not modelled")
    results = {"i8": (2,), "tf32": (1,)}.get(kind, (1,) if scaled else (0, 1))
    if a not in allowed or b not in allowed or result not in results:
        raise wrong(word, f"formats {a}, {b} -> {result} for kind::{kind}")
    shape = Shape(
        kind,
        16 * (word >> 24 & 31),
        8 * (word >> 17 & 63),
        allowed[a],
        allowed[b],
        RESULTS[result],
        *(bool(word >> bit & 1) for bit in (13, 14, 15, 16)),
        saturates=saturates,
        scale=("ue4m3", "ue8m0")[word >> 23 & 1] if scaled else "",
        a_scale=word >> 29 & 3 if scaled else 0,
        b_scale=word >> 4 & 3 if scaled else 0,
    )
    for format, mn in ((shape.a, shape.a_mn), (shape.b, shape.b_mn)):
        if mn and format in ("e2m3", "e3m2", "e2m1", PACKED):
            raise wrong(word, f"{format} is K-major only")
    return shape


def wrong(word: int, reason: str) -> KernelFault:
    """The fault of a descriptor."""
    return KernelFault("matrix-descriptor", f"instruction descriptor {word:#x}: {reason}")
