"""Conversions between number formats, and moves. PTX ISA 9.7.9.1 (mov), 9.7.9.22 (cvt)."""

from attnspec.emulator.instructions.rule import BITS, DTYPES, Move, Pure, Rule, only, unsupported
from attnspec.emulator.ptx.operands import Instruction

WHOLE = ("rni", "rzi", "rmi", "rpi")
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "f32", "f64")
PAIRS = {"bf16x2": "A.bf16x2({0}, {1})", "f16x2": "A.f16x2({0}, {1})"}


def move(instruction: Instruction) -> Rule:
    """mov, also as packing and unpacking of vectors."""
    target, source = instruction.operands
    return Move(target, source)


def convert(instruction: Instruction) -> Rule:
    """cvt[.ROUND][.ftz][.sat].TO.FROM"""
    words = instruction.parts
    to, source = words[-2:]
    if to in PAIRS and source == "f32" and len(instruction.operands) == 3:
        if words[1] != "rn" or len(words) != 4:
            raise unsupported(instruction, "only .rn")
        target, high, low = instruction.operands
        return Pure(PAIRS[to], ((high, "f32"), (low, "f32")), ((target, "u32"),))
    target, value = instruction.operands
    only(instruction, *WHOLE, "rn", "rz", "rm", "rp", "ftz", "sat", to, source)
    kinds = {"bf16": "u16"}
    if to not in (*INTEGERS, *FLOATS, "bf16") or source not in (*INTEGERS, *FLOATS, "bf16"):
        raise unsupported(instruction, "this pair of types")
    code = conversion(instruction, to, source)
    if to in ("s8", "s16") and getattr(target, "bits", 0) > BITS[to]:
        # A signed result is extended by its sign to a wider register.
        wide = f"s{getattr(target, 'bits', 0)}"
        return Pure(f"({code}).astype(T_{wide})", ((value, kinds.get(source, source)),), ((target, wide),))
    return Pure(code, ((value, kinds.get(source, source)),), ((target, kinds.get(to, to)),))


def conversion(instruction: Instruction, to: str, source: str) -> str:
    """Code of a conversion of one value."""
    words = instruction.parts
    mode = next((word for word in words if word in WHOLE), None)
    value = "A.from_bf16({0})" if source == "bf16" else "{0}"
    if "ftz" in words and source == "f32":
        value = f"A.flush({value})"
    if to in INTEGERS:
        if source in INTEGERS:
            return integer_code(to, source, "sat" in words)
        if mode is None:
            raise unsupported(instruction, "a float becomes an integer by .rni, .rzi, .rmi or .rpi")
        return f"A.to_integer({value}, {mode!r}, T_{to})"
    if mode is not None:
        value = f"A.round_whole({value}, {mode!r})"
    elif (direction := next((word for word in words if word in ("rz", "rm", "rp")), None)) is not None:
        if to != "f32" or "sat" in words:
            raise unsupported(instruction, "only .rn")
        return f"A.float_directed({value}, {direction!r})"
    if "sat" in words:
        value = f"(np.nan_to_num(np.clip({value}, 0, 1)) + 0)"
    if to == "bf16":
        return f"A.bf16({value}.astype(np.float32)).astype(np.uint16)"
    if to == "f16":
        return f"A.f16({value}).astype(T_u16).view(T_f16)"
    return f"{value}.astype(T_{to})"


def integer_code(to: str, source: str, saturate: bool) -> str:
    """Integer to integer: extended by the source's sign, cut, or clamped."""
    if not saturate:
        return f"{{0}}.astype(T_{to})"
    if BITS[source] == 64 and source[0] == "u":
        return f"np.minimum({{0}}, np.uint64({int(_limit(to)[1])})).astype(T_{to})"
    low, high = _limit(to)
    return f"np.clip({{0}}.astype(np.int64), {max(low, -(2**63))}, {min(high, 2**63 - 1)}).astype(T_{to})"


def _limit(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TABLE = {"mov": move, "cvt": convert}
assert set(INTEGERS) < set(DTYPES)
