"""f16 and bf16 arithmetic, alone and in pairs, and mixed f32 arithmetic. PTX ISA 9.7.5, 9.7.6, 9.7.7 (comparison)."""

from collections.abc import Callable

from attnspec.emulator.instructions.predicate import COMBINED, comparison
from attnspec.emulator.instructions.rule import Pure, only, unsupported
from attnspec.emulator.ptx.operands import Instruction, Two

KINDS = {"f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32"}
OPTIONS = ("ftz", "sat", "relu")
MIXED = {
    "add": ("{0} + {1}", "A.add_directed({0}, {1}, MODE)"),
    "sub": ("{0} - {1}", "A.add_directed({0}, -{1}, MODE)"),
    "fma": ("A.fma({0}, {1}, {2})", "A.fma_directed({0}, {1}, {2}, MODE)"),
}


def half(name: str, sources: int) -> Callable[[Instruction], Pure | None]:
    """Arithmetic of f16, bf16, f16x2 or bf16x2; None for other types."""

    def rule(instruction: Instruction) -> Pure | None:
        words = instruction.parts
        type = words[-1]
        if type not in KINDS:
            return None
        only(instruction, type, "rn", "approx", "NaN", *OPTIONS)
        options = tuple(word for word in words if word in OPTIONS)
        target, *reads = instruction.operands
        if len(reads) != sources:
            raise unsupported(instruction, f"{sources} sources wanted")
        function = f"{name}.NaN" if "NaN" in words and name in ("min", "max") else name
        places = ", ".join(f"{{{position}}}" for position in range(sources))
        code = f"H.apply({function!r}, {type!r}, {options!r}, {places})"
        return Pure(code, tuple((read, KINDS[type]) for read in reads), ((target, KINDS[type]),))

    return rule


def mixed(name: str, sources: int) -> Callable[[Instruction], Pure | None]:
    """add, sub, fma .f32 with 16-bit operands: all but the last are of the narrow type."""

    def rule(instruction: Instruction) -> Pure | None:
        words = instruction.parts
        if words[-1] not in ("f16", "bf16") or "f32" not in words[:-1]:
            return None
        only(instruction, "f32", words[-1], "rn", "rz", "rm", "rp", "sat")
        target, *reads = instruction.operands
        mode = next((word for word in words if word in ("rz", "rm", "rp")), None)
        code = MIXED[name][0] if mode is None else MIXED[name][1].replace("MODE", repr(mode))
        narrow = [f"H.mixed({{{position}}}, {words[-1]!r})" for position in range(sources - 1)]
        code = code.format(*narrow, f"{{{sources - 1}}}")
        if "sat" in words:
            code = f"np.nan_to_num(np.clip({code}, np.float32(0), np.float32(1)))"
        types = (*("u16" for _ in narrow), "f32")
        return Pure(code, tuple(zip(reads, types, strict=True)), ((target, "f32"),))

    return rule


def either(name: str, sources: int) -> Callable[[Instruction], Pure | None]:
    """Mixed if f32 is named too, else narrow."""
    first, second = mixed(name, sources), half(name, sources)
    return lambda instruction: first(instruction) or second(instruction)


def set_predicate(instruction: Instruction) -> Pure | None:
    """setp.CMP[.BOOL][.ftz].f16 and .bf16; of pairs one predicate a half."""
    words = [word for word in instruction.parts[1:] if word != "ftz"]
    type = words[-1]
    if type not in KINDS:
        return None
    code = comparison(words[0], "f32")
    if code is None or len(words) not in (2, 3) or (len(words) == 3 and words[1] not in COMBINED):
        raise unsupported(instruction, "this comparison")
    target, a, b, *rest = instruction.operands
    kind, reads = type.removesuffix("x2"), ((a, KINDS[type]), (b, KINDS[type]), *((one, "pred") for one in rest))
    combine = f" {COMBINED[words[1]]} {{2}}" if rest else ""
    flushed = "H.flush(H.widen({0}, KIND), KIND)" if "ftz" in instruction.parts else "H.widen({0}, KIND)"

    def halves(places: tuple[str, str]) -> str:
        wide = (flushed.replace("KIND", repr(kind)).replace("{0}", place) for place in places)
        return f"({code.format(*wide)}){combine}"

    if not type.endswith("x2"):
        if isinstance(target, Two):
            raise unsupported(instruction, "p|q")
        return Pure(halves(("{0}", "{1}")), reads, ((target, "pred"),))
    if not isinstance(target, Two):
        raise unsupported(instruction, "wanted p|q")
    low = halves(("({0} & T_u32(0xFFFF)).astype(T_u16)", "({1} & T_u32(0xFFFF)).astype(T_u16)"))
    high = halves(("({0} >> T_u32(16)).astype(T_u16)", "({1} >> T_u32(16)).astype(T_u16)"))
    return Pure(f"{low}, {high}", reads, ((target.first, "pred"), (target.second, "pred")))


TABLE = {
    "add": either("add", 2),
    "sub": either("sub", 2),
    "mul": half("mul", 2),
    "fma": either("fma", 3),
    "min": half("min", 2),
    "max": half("max", 2),
    "neg": half("neg", 1),
    "abs": half("abs", 1),
    "ex2": half("ex2", 1),
    "tanh": half("tanh", 1),
    "setp": set_predicate,
}
