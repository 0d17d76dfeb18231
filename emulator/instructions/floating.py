"""f32 and f64 arithmetic, packed f32x2, and the approximations. PTX ISA 9.7.3, 9.7.4; rounding in translate/arithmetic.py."""

from collections.abc import Callable

from attnspec.emulator.instructions.rule import Pure, only, unsupported
from attnspec.emulator.ptx.operands import Instruction

DIRECTED = ("rm", "rp", "rz")
KINDS = ("f32", "f64", "f32x2")


def float_type(instruction: Instruction) -> str | None:
    """f32 (also of each half of f32x2) or f64; None for other types."""
    word = instruction.parts[-1]
    return {"f32x2": "f32"}.get(word, word) if word in KINDS else None


def finished(instruction: Instruction, code: str, reads: int) -> Pure:
    """A rule on the opcode's float type, with flushing of subnormals and saturation as the opcode says."""
    kind = float_type(instruction) or "f32"
    only(instruction, *KINDS, *DIRECTED, "rn", "ftz", "sat", "NaN", "approx", "full")
    target, *sources = instruction.operands
    if len(sources) != reads:
        raise unsupported(instruction, f"{reads} sources wanted")
    words = instruction.parts
    if "ftz" in words:
        code = "A.flush(" + code.format(*(f"A.flush({{{position}}})" for position in range(reads))) + ")"
    if "sat" in words:
        code = f"np.nan_to_num(np.clip({code}, np.float32(0), np.float32(1)))"
    return Pure(code, tuple((source, kind) for source in sources), ((target, kind),), packed=words[-1] == "f32x2")


def rounded(plain: str, directed: str, reads: int) -> Callable[[Instruction], Pure | None]:
    """Arithmetic that rounds: `plain` to nearest even, `directed` with a mode in place of MODE."""

    def rule(instruction: Instruction) -> Pure | None:
        kind = float_type(instruction)
        if kind is None:
            return None
        mode = next((word for word in instruction.parts if word in DIRECTED), None)
        if mode is not None and (kind == "f64" or not directed):
            raise unsupported(instruction, f"rounding .{mode}")
        return finished(instruction, plain if mode is None else directed.replace("MODE", repr(mode)), reads)

    return rule


def exact(code: str, reads: int) -> Callable[[Instruction], Pure | None]:
    """Arithmetic that does not round."""
    return rounded(code, "", reads)


def fused(instruction: Instruction) -> Pure | None:
    """fma, and mad on floats; rounded once."""
    kind = float_type(instruction)
    if kind == "f64":
        raise unsupported(instruction, "f64 fma")
    return rounded("A.fma({0}, {1}, {2})", "A.fma_directed({0}, {1}, {2}, MODE)", 3)(instruction)


def extreme(name: str) -> Callable[[Instruction], Pure | None]:
    """min and max of two or three: a NaN is dropped, or kept with .NaN."""

    def rule(instruction: Instruction) -> Pure | None:
        if float_type(instruction) is None:
            return None
        function = f"np.{name}imum" if "NaN" in instruction.parts else f"np.f{name}"
        three = len(instruction.operands) == 4
        code = f"{function}({function}({{0}}, {{1}}), {{2}})" if three else f"{function}({{0}}, {{1}})"
        return finished(instruction, code, 3 if three else 2)

    return rule


def approximated(code: str) -> Callable[[Instruction], Pure | None]:
    """A function of one f32."""
    return rounded(code, "", 1)


TABLE = {
    "add": rounded("{0} + {1}", "A.add_directed({0}, {1}, MODE)", 2),
    "sub": rounded("{0} - {1}", "A.add_directed({0}, -{1}, MODE)", 2),
    "mul": rounded("{0} * {1}", "A.multiply_directed({0}, {1}, MODE)", 2),
    "fma": fused,
    "mad": fused,
    "div": rounded("{0} / {1}", "", 2),
    "neg": exact("-{0}", 1),
    "abs": exact("np.abs({0})", 1),
    "min": extreme("min"),
    "max": extreme("max"),
    "copysign": exact("np.copysign({1}, {0})", 2),
    "rcp": approximated("np.reciprocal({0})"),
    "sqrt": approximated("np.sqrt({0})"),
    "rsqrt": approximated("(1.0 / np.sqrt({0}.astype(np.float64))).astype({0}.dtype)"),
    "ex2": approximated("np.exp2({0})"),
    "lg2": approximated("np.log2({0})"),
    "sin": approximated("np.sin({0})"),
    "cos": approximated("np.cos({0})"),
    "tanh": approximated("np.tanh({0})"),
}
