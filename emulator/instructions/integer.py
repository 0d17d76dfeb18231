"""Integer arithmetic, logic and shifts. PTX ISA 9.7.1 and 9.7.8."""

from collections.abc import Callable

from attnspec.emulator.instructions.rule import BITS, UNTYPED, Pure, only, unsupported
from attnspec.emulator.ptx.operands import Immediate, Instruction

KINDS = {"u16", "s16", "u32", "s32", "u64", "s64"}


def integer_type(instruction: Instruction) -> str | None:
    """The last word of the opcode if it is an integer type."""
    word = instruction.parts[-1]
    word = UNTYPED.get(word, word) if word.startswith("b") else word
    return word if word in KINDS else None


def simple(code: str, sources: int) -> Callable[[Instruction], Pure | None]:
    """A rule of `sources` operands of the opcode's type. With .relu (min and max) what is negative becomes 0."""

    def rule(instruction: Instruction) -> Pure | None:
        kind = integer_type(instruction)
        if kind is None:
            return None
        only(instruction, instruction.parts[-1], *(("relu",) if kind == "s32" else ()))
        target, *reads = instruction.operands
        if len(reads) != sources:
            raise unsupported(instruction, f"{sources} sources wanted")
        text = f"np.maximum({code}, T_s32(0))" if "relu" in instruction.parts else code
        return Pure(text, tuple((operand, kind) for operand in reads), ((target, kind),))

    return rule


def shift(code: str) -> Callable[[Instruction], Pure | None]:
    """A shift: the amount is always 32 bits wide."""

    def rule(instruction: Instruction) -> Pure | None:
        kind = integer_type(instruction)
        only(instruction, instruction.parts[-1])
        target, value, amount = instruction.operands
        return None if kind is None else Pure(code, ((value, kind), (amount, "u32")), ((target, kind),))

    return rule


def multiply(instruction: Instruction) -> Pure | None:
    """mul and mad: the low half, the high half, or a wide product."""
    kind = integer_type(instruction)
    if kind is None:
        return None
    only(instruction, "lo", "hi", "wide", instruction.parts[-1])
    target, a, b, *c = instruction.operands
    words = instruction.parts
    reads = ((a, kind), (b, kind))
    if "lo" in words:
        return Pure("{0} * {1} + {2}" if c else "{0} * {1}", (*reads, *((one, kind) for one in c)), ((target, kind),))
    if "hi" in words:
        code = "A.high_product({0}, {1})" + (" + {2}" if c else "")
        return Pure(code, (*reads, *((one, kind) for one in c)), ((target, kind),))
    if "wide" in words:
        wide = f"{kind[0]}{2 * BITS[kind]}"
        code = f"{{0}}.astype(T_{wide}) * {{1}}.astype(T_{wide})" + (" + {2}" if c else "")
        return Pure(code, (*reads, *((one, wide) for one in c)), ((target, wide),))
    raise unsupported(instruction, "wanted .lo, .hi or .wide")


def negate(instruction: Instruction) -> Pure | None:
    """neg and abs wrap: the most negative value stays."""
    kind = integer_type(instruction)
    if kind is None:
        return None
    only(instruction, instruction.parts[-1])
    target, value = instruction.operands
    code = "-{0}" if instruction.parts[0] == "neg" else "np.abs({0})"
    return Pure(code, ((value, kind),), ((target, kind),))


def count(code: str) -> Callable[[Instruction], Pure]:
    """A count of bits, which is 32 bits wide."""

    def rule(instruction: Instruction) -> Pure:
        kind = integer_type(instruction) or "u32"
        only(instruction, instruction.parts[-1])
        target, value = instruction.operands
        return Pure(code, ((value, kind),), ((target, "u32"),))

    return rule


def logic3(instruction: Instruction) -> Pure:
    """lop3.b32"""
    only(instruction, "b32")
    target, a, b, c, table = instruction.operands
    if not isinstance(table, Immediate):
        raise unsupported(instruction, "the table must be a constant")
    return Pure(f"B.logic3({{0}}, {{1}}, {{2}}, {table.value})", ((a, "u32"), (b, "u32"), (c, "u32")), ((target, "u32"),))


def permute(instruction: Instruction) -> Pure:
    """prmt.b32 without a mode"""
    if instruction.opcode != "prmt.b32":
        raise unsupported(instruction, "modes of prmt")
    target, a, b, c = instruction.operands
    return Pure("B.byte_permute({0}, {1}, {2})", ((a, "u32"), (b, "u32"), (c, "u32")), ((target, "u32"),))


def funnel(instruction: Instruction) -> Pure:
    """shf.l and shf.r, .clamp or .wrap"""
    only(instruction, "l", "r", "clamp", "wrap", "b32")
    target, low, high, amount = instruction.operands
    words = instruction.parts
    code = f"B.funnel({{0}}, {{1}}, {{2}}, {words[1] == 'l'}, {words[2] == 'clamp'})"
    return Pure(code, ((low, "u32"), (high, "u32"), (amount, "u32")), ((target, "u32"),))


def extract(instruction: Instruction) -> Pure:
    """bfe"""
    only(instruction, instruction.parts[-1])
    kind = integer_type(instruction) or "u32"
    target, value, start, length = instruction.operands
    return Pure("B.extract({0}, {1}, {2})", ((value, kind), (start, "u32"), (length, "u32")), ((target, kind),))


def insert(instruction: Instruction) -> Pure:
    """bfi"""
    only(instruction, instruction.parts[-1])
    kind = integer_type(instruction) or "u32"
    target, value, into, start, length = instruction.operands
    reads = ((value, kind), (into, kind), (start, "u32"), (length, "u32"))
    return Pure("B.insert({0}, {1}, {2}, {3})", reads, ((target, kind),))


TABLE = {
    "add": simple("{0} + {1}", 2),
    "sub": simple("{0} - {1}", 2),
    "div": simple("A.divide({0}, {1})", 2),
    "rem": simple("A.remainder({0}, {1})", 2),
    "min": simple("np.minimum({0}, {1})", 2),
    "max": simple("np.maximum({0}, {1})", 2),
    "and": simple("{0} & {1}", 2),
    "or": simple("{0} | {1}", 2),
    "xor": simple("{0} ^ {1}", 2),
    "not": simple("~{0}", 1),
    "neg": negate,
    "abs": negate,
    "shl": shift("A.shift_left({0}, {1})"),
    "shr": shift("A.shift_right({0}, {1})"),
    "mul": multiply,
    "mad": multiply,
    "popc": count("np.bitwise_count({0}).astype(T_u32)"),
    "clz": count("B.leading_zeros({0})"),
    "brev": simple("B.reverse_bits({0})", 1),
    "bfe": extract,
    "bfi": insert,
    "lop3": logic3,
    "prmt": permute,
    "shf": funnel,
}
