"""Conversions to and from 16-bit, 8-bit and smaller floats that `convert` does not know. PTX ISA 9.7.9.22 (cvt)."""

from attnspec.emulator.instructions.rule import Pure, only, unsupported
from attnspec.emulator.ptx.operands import Instruction

EIGHT = ("e4m3", "e5m2")
SMALL = ("e2m1", "e2m3", "e3m2")
SCALE = "ue8m0x2"
HALVES = ("f16", "bf16")
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")


def convert(instruction: Instruction) -> Pure | None:
    """cvt with a narrow float on either side; None for what other rules do."""
    words = instruction.parts
    if len(words) < 3:
        return None
    to, source = words[-2:]
    target, *reads = instruction.operands
    mode = next((word for word in words if word in ROUNDINGS), "rn")
    options = tuple(word for word in words if word in ("relu", "satfinite"))
    if SCALE in (to, source):
        return scale(instruction, to, source)
    if to.removesuffix("x2") in (*EIGHT, *SMALL) and to.endswith("x2"):
        return to_pair(instruction, to[:-2], source, options)
    if source.removesuffix("x2") in (*EIGHT, *SMALL) and source.endswith("x2"):
        only(instruction, "rn", "relu", to, source)
        if to != "f16x2":
            raise unsupported(instruction, "this pair of types")
        width = "u8" if source == "e2m1x2" else "u16"
        return Pure(f"N.pair_to_f16({{0}}, {source[:-2]!r}, {options!r})", ((reads[0], width),), ((target, "u32"),))
    if to == "tf32" and source == "f32":
        only(instruction, "rn", "rz", "rna", "relu", "satfinite", to, source)
        return Pure(f"N.to_tf32({{0}}, {mode!r}, {options!r})", ((reads[0], "f32"),), ((target, "u32"),))
    if to in ("f16x2", "bf16x2") and source == "f32" and (mode != "rn" or options):
        only(instruction, "rn", "rz", "relu", "satfinite", to, source)
        code = f"N.two({{0}}, {{1}}, {to[:-2]!r}, {mode!r}, {options!r})"
        return Pure(code, ((reads[0], "f32"), (reads[1], "f32")), ((target, "u32"),))
    if to in HALVES and source in ("f32", *HALVES) and "ftz" not in words and "sat" not in words and to != source:
        if any(word in words for word in ("rni", "rzi", "rmi", "rpi")):
            return None
        only(instruction, "rn", "rz", "rm", "rp", "relu", "satfinite", to, source)
        width = "f32" if source == "f32" else "u16"
        code = f"N.one({{0}}, {source!r}, {to!r}, {mode!r}, {options!r})"
        return Pure(code, ((reads[0], width),), ((target, "u16"),))
    return None


def scale(instruction: Instruction, to: str, source: str) -> Pure:
    """cvt.{rz,rp}[.satfinite].ue8m0x2.{f32,bf16x2} and cvt.rn.bf16x2.ue8m0x2: powers of two in 8 bits (PTX ISA 9.7.9.22)."""
    target, *reads = instruction.operands
    mode = "rp" if "rp" in instruction.parts else "rz"
    if to == SCALE and source == "f32" and len(reads) == 2:
        only(instruction, "rz", "rp", "satfinite", to, source)
        return Pure(f"N.pair_of_scales({{0}}, {{1}}, {mode!r})", ((reads[0], "f32"), (reads[1], "f32")), ((target, "u16"),))
    if to == SCALE and source == "bf16x2":
        only(instruction, "rz", "rp", "satfinite", to, source)
        return Pure(f"N.scales_of_pair({{0}}, {mode!r})", ((reads[0], "u32"),), ((target, "u16"),))
    if source == SCALE and to == "bf16x2":
        only(instruction, "rn", to, source)
        return Pure("N.pair_to_bf16({0})", ((reads[0], "u16"),), ((target, "u32"),))
    raise unsupported(instruction, "this pair of types")


def to_pair(instruction: Instruction, to: str, source: str, options: tuple[str, ...]) -> Pure:
    """Two values to two codes; the first operand is the upper one."""
    only(instruction, "rn", "relu", "satfinite", f"{to}x2", source)
    if "satfinite" not in options:
        raise unsupported(instruction, "wanted .satfinite")
    target, *reads = instruction.operands
    written = "u8" if to == "e2m1" else "u16"
    if source == "f32":
        code = f"N.pair_of_f32({{0}}, {{1}}, {to!r}, {options!r}).astype(T_{written})"
        return Pure(code, ((reads[0], "f32"), (reads[1], "f32")), ((target, written),))
    if source in ("f16x2", "bf16x2"):
        code = f"N.pair_of_halves({{0}}, {source[:-2]!r}, {to!r}, {options!r}).astype(T_{written})"
        return Pure(code, ((reads[0], "u32"),), ((target, written),))
    raise unsupported(instruction, "this pair of types")


TABLE = {"cvt": convert}
