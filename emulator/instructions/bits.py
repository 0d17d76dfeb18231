"""Integer instructions that kernels rarely use. PTX ISA 9.7.1 (integer), 9.7.2 (extended precision), 9.7.8 (logic), 9.7.9.20."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.instructions.integer import integer_type
from attnspec.emulator.instructions.memory import WINDOWS
from attnspec.emulator.instructions.rule import BITS, LANES, Act, Pure, Rule, kind_of, only, unsupported
from attnspec.emulator.machine.layout import WINDOW_BITS
from attnspec.emulator.ptx.operands import Instruction, Special

RANK = Special("%cluster_ctarank")
# The nibbles that prmt's modes stand for, by the two low bits of the selector.
PERMUTATIONS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def permute(instruction: Instruction) -> Pure | None:
    """prmt.b32.MODE"""
    mode = instruction.parts[-1]
    if mode not in PERMUTATIONS:
        return None
    only(instruction, "b32", mode)
    target, *reads = instruction.operands
    code = f"B.byte_permute({{0}}, {{1}}, np.array({PERMUTATIONS[mode]}, T_u32)[{{2}} & T_u32(3)])"
    return Pure(code, tuple((read, "u32") for read in reads), ((target, "u32"),))


def saturated(code: str) -> Callable[[Instruction], Pure | None]:
    """add.sat.s32, sub.sat.s32"""

    def rule(instruction: Instruction) -> Pure | None:
        if instruction.parts[1:] != ("sat", "s32"):
            return None
        target, a, b = instruction.operands
        text = f"np.clip({code}, -2**31, 2**31 - 1).astype(T_s32)"
        return Pure(text, ((a, "s32"), (b, "s32")), ((target, "s32"),))

    return rule


def multiply24(instruction: Instruction) -> Pure:
    """mul24, mad24: the low (.lo) or the upper (.hi) 32 of 48 bits of the product of two 24-bit numbers."""
    kind = integer_type(instruction)
    half = instruction.parts[1]
    if kind not in ("u32", "s32") or half not in ("lo", "hi") or len(instruction.parts) != 3:
        raise unsupported(instruction, "this form")
    target, a, b, *c = instruction.operands
    wide = "s64" if kind == "s32" else "u64"
    factors = (f"(({{{n}}} << T_{kind}(8)) >> T_{kind}(8)).astype(T_{wide})" for n in (0, 1))
    code = f"({' * '.join(factors)} >> T_{wide}({16 if half == 'hi' else 0})).astype(T_{kind})" + (" + {2}" if c else "")
    return Pure(code, tuple((read, kind) for read in (a, b, *c)), ((target, kind),))


def difference(instruction: Instruction) -> Pure:
    """sad: c + |a - b|"""
    kind = integer_type(instruction)
    only(instruction, instruction.parts[-1])
    if kind is None:
        raise unsupported(instruction, "this type")
    target, *reads = instruction.operands
    return Pure("{2} + np.where({0} > {1}, {0} - {1}, {1} - {0})", tuple((read, kind) for read in reads), ((target, kind),))


def find(instruction: Instruction) -> Pure:
    """bfind[.shiftamt]: the highest bit that is no sign bit, as its position or its distance from the top; none: all ones."""
    kind = kind_of(instruction, instruction.parts[-1])
    only(instruction, "shiftamt", instruction.parts[-1])
    target, value = instruction.operands
    bits = BITS[kind]
    shown = f"np.where({{0}} < 0, ~{{0}}, {{0}}).view(T_u{bits})" if kind[0] == "s" else "{0}"
    zeros = f"B.leading_zeros({shown})"
    found = zeros if "shiftamt" in instruction.parts else f"T_u32({bits - 1}) - {zeros}"
    return Pure(f"np.where({zeros} == {bits}, T_u32(0xFFFFFFFF), {found})", ((value, kind),), ((target, "u32"),))


def find_nth(instruction: Instruction) -> Pure:
    """fns.b32: the n-th set bit from a base, upwards or downwards."""
    only(instruction, "b32")
    target, mask, base, offset = instruction.operands
    return Pure("B.find_nth({0}, {1}, {2})", ((mask, "u32"), (base, "u32"), (offset, "s32")), ((target, "u32"),))


def complement(instruction: Instruction) -> Pure:
    """cnot: 1 for 0, else 0"""
    kind = integer_type(instruction) or "u32"
    only(instruction, instruction.parts[-1])
    target, value = instruction.operands
    return Pure(f"({{0}} == 0).astype(T_{kind})", ((value, kind),), ((target, kind),))


def mask(instruction: Instruction) -> Pure:
    """bmsk.MODE.b32: ones from a position on, so many. szext.MODE: a value of so many bits, extended."""
    mode = instruction.parts[1]
    if mode not in ("clamp", "wrap") or len(instruction.parts) != 3:
        raise unsupported(instruction, "this form")
    target, a, b = instruction.operands
    if instruction.parts[0] == "bmsk":
        return Pure(f"B.bit_mask({{0}}, {{1}}, {mode == 'clamp'})", ((a, "u32"), (b, "u32")), ((target, "u32"),))
    kind = kind_of(instruction, instruction.parts[-1])
    return Pure(f"B.extend({{0}}, {{1}}, {mode == 'clamp'})", ((a, kind), (b, "u32")), ((target, kind),))


def dot(instruction: Instruction) -> Pure:
    """dp4a.A.B: c plus the products of four bytes; dp2a.MODE.A.B: of two halves and the lower or upper two bytes."""
    words = instruction.parts
    target, *reads = instruction.operands
    if not {words[-1], words[-2]} <= {"u32", "s32"}:
        raise unsupported(instruction, "these types")
    signs = f"{words[-2] == 's32'}, {words[-1] == 's32'}"
    if words[0] == "dp2a":
        code = f"B.dot2({{0}}, {{1}}, {{2}}, {signs}, {words[1] == 'hi'})"
    else:
        code = f"B.dot4({{0}}, {{1}}, {{2}}, {signs})"
    return Pure(code, tuple((read, "u32") for read in reads), ((target, "u32"),))


def carry(instruction: Instruction) -> Rule | None:
    """add.cc, addc, sub.cc, subc, mad.lo.cc, madc: sums that leave a carry in the warp's flags, or take it."""
    words = instruction.parts
    name = words[0]
    takes = name in ("addc", "subc", "madc")
    if not takes and "cc" not in words:
        return None
    kind = {"s": "u"}.get(words[-1][0], words[-1][0]) + words[-1][1:]
    only(instruction, "cc", "lo", "hi", words[-1])
    target, *reads = instruction.operands
    half = next((word for word in words if word in ("lo", "hi")), "")
    signed = words[-1][0] == "s" and half == "hi"
    call = partial(carried, name=name[:3], half=half, signed=signed, takes=takes, leaves="cc" in words)
    return Act(call, tuple((read, kind) for read in reads), ((target, kind),))


def carried(warp: Any, mask: Any, *values: Any, name: str, half: str, signed: bool, takes: bool, leaves: bool) -> Any:
    """The sum; the flag of a lane is its carry, or its borrow."""
    flags = getattr(warp, "carry", np.zeros(LANES, np.bool_)) if takes else np.zeros(LANES, np.bool_)
    bits = 8 * values[0].itemsize
    wide = [[int(lane) for lane in value] for value in values]
    result, after = np.empty(LANES, values[0].dtype), np.zeros(LANES, np.bool_)
    for lane in range(LANES):
        a, b, *c = (value[lane] for value in wide)
        if name == "mad":
            if signed:
                a, b = (one - (1 << bits) if one >> bits - 1 else one for one in (a, b))
            a, b = a * b >> (bits if half == "hi" else 0) & (1 << bits) - 1, c[0]
        total = a - b - int(flags[lane]) if name == "sub" else a + b + int(flags[lane])
        result[lane], after[lane] = total & (1 << bits) - 1, not 0 <= total < 1 << bits
    if leaves:
        before = getattr(warp, "carry", np.zeros(LANES, np.bool_))
        warp.carry = after if mask is None else np.where(mask, after, before)
    return result


def select_by_sign(instruction: Instruction) -> Pure:
    """slct.TYPE.{s32,f32} d, a, b, c: a if c >= 0, else b"""
    words = instruction.parts
    only(instruction, "ftz", words[-2], words[-1])
    target, a, b, c = instruction.operands
    kind = f"u{words[-2][1:]}"
    condition = "A.flush({2}) >= 0" if "ftz" in words else "{2} >= 0"
    return Pure(f"np.where({condition}, {{0}}, {{1}})", ((a, kind), (b, kind), (c, words[-1])), ((target, kind),))


def either(rule: Callable[[Instruction], Pure | None]) -> Callable[[Instruction], Rule | None]:
    """The rule, or that of a sum with a carry."""
    return lambda instruction: rule(instruction) or carry(instruction)


def in_space(instruction: Instruction) -> Pure:
    """isspacep.SPACE: whether a generic address is of a space."""
    target, address = instruction.operands
    space = instruction.parts[1]
    base = WINDOWS.get(space.split("::")[0], 0)
    code = f"({{0}} >> T_u64({WINDOW_BITS})) == T_u64({base >> WINDOW_BITS})"
    if space in ("shared", "shared::cta"):
        # Of the shared window, the part of this CTA.
        code = f"({code}) & (({{0}} >> T_u64(24) & T_u64(0xFF)) == {{1}})"
        return Pure(code, ((address, "u64"), (RANK, "u64")), ((target, "pred"),))
    return Pure(code, ((address, "u64"),), ((target, "pred"),))


TABLE = {
    "prmt": permute,
    "mul24": multiply24,
    "mad24": multiply24,
    "sad": difference,
    "bfind": find,
    "fns": find_nth,
    "cnot": complement,
    "bmsk": mask,
    "szext": mask,
    "dp4a": dot,
    "dp2a": dot,
    "add": either(saturated("{0}.astype(T_s64) + {1}")),
    "sub": either(saturated("{0}.astype(T_s64) - {1}")),
    "mad": carry,
    "addc": carry,
    "subc": carry,
    "madc": carry,
    "slct": select_by_sign,
    "isspacep": in_space,
}
