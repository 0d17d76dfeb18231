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
        code = f"np.nan_to_num(np.clip({code}, np.float32(0), np.float32(1))) + np.float32(0)"
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
        if "xorsign" in instruction.parts:
            return signed_extreme(instruction, function)
        three = len(instruction.operands) == 4
        code = f"A.extreme({function}, {{0}}, {{1}})"
        code = f"A.extreme({function}, {code}, {{2}})" if three else code
        return finished(instruction, code, 3 if three else 2)

    return rule


def signed_extreme(instruction: Instruction, function: str) -> Pure:
    """min and max .xorsign.abs: of the magnitudes, with the sign that a product would have."""
    only(instruction, "ftz", "NaN", "xorsign", "abs", "f32")
    target, a, b = instruction.operands
    x, y = ("A.flush({0})", "A.flush({1})") if "ftz" in instruction.parts else ("{0}", "{1}")
    code = f"A.signed_like({function}(np.abs({x}), np.abs({y})), {x}, {y})"
    return Pure(code, ((a, "f32"), (b, "f32")), ((target, "f32"),))


def test(instruction: Instruction) -> Pure:
    """testp.CLASS: what kind of number a float is."""
    name, kind = instruction.parts[1], instruction.parts[-1]
    only(instruction, name, "f32", "f64")
    smallest = "np.finfo({0}.dtype).tiny"
    code = {
        "finite": "np.isfinite({0})",
        "infinite": "np.isinf({0})",
        "number": "~np.isnan({0})",
        "notanumber": "np.isnan({0})",
        "normal": f"np.isfinite({{0}}) & (({{0}} == 0) | (np.abs({{0}}) >= {smallest}))",
        "subnormal": f"({{0}} != 0) & (np.abs({{0}}) < {smallest})",
    }.get(name)
    if code is None:
        raise unsupported(instruction, "this class")
    target, value = instruction.operands
    return Pure(code, ((value, kind),), ((target, "pred"),))


def approximated(name: str, exact_code: str, directed: str = "") -> Callable[[Instruction], Pure | None]:
    """A function of one f32 from the table of approximations, or with .rn (and for f64) its exact form."""
    table, plain = rounded(f"P.current.{name}({{0}})", "", 1), rounded(exact_code, directed, 1)

    def rule(instruction: Instruction) -> Pure | None:
        return (table if "approx" in instruction.parts and instruction.parts[-1] == "f32" else plain)(instruction)

    return rule


def quotient(instruction: Instruction) -> Pure | None:
    """div: of f32 exact, or by the table of approximations (.full, .approx)."""
    words = instruction.parts
    if words[-1] == "f32" and ("full" in words or "approx" in words):
        return rounded(f"P.divide({{0}}, {{1}}, {'full' in words})", "", 2)(instruction)
    return rounded("{0} / {1}", "A.quotient({0}, {1}, MODE)", 2)(instruction)


TABLE = {
    "add": rounded("{0} + {1}", "A.add_directed({0}, {1}, MODE)", 2),
    "sub": rounded("{0} - {1}", "A.add_directed({0}, -{1}, MODE)", 2),
    "mul": rounded("{0} * {1}", "A.multiply_directed({0}, {1}, MODE)", 2),
    "fma": fused,
    "mad": fused,
    "div": quotient,
    "neg": exact("-{0}", 1),
    "abs": exact("np.abs({0})", 1),
    "min": extreme("min"),
    "max": extreme("max"),
    "copysign": exact("np.copysign({1}, {0})", 2),
    "rcp": approximated("rcp", "np.reciprocal({0})", "A.quotient(np.ones_like({0}), {0}, MODE)"),
    "sqrt": approximated("sqrt", "np.sqrt({0})", "A.square_root({0}, MODE)"),
    "rsqrt": approximated("rsqrt", "(1.0 / np.sqrt({0}.astype(np.float64))).astype({0}.dtype)"),
    "ex2": approximated("ex2", "np.exp2({0})"),
    "lg2": approximated("lg2", "np.log2({0})"),
    "sin": approximated("sin", "np.sin({0})"),
    "cos": approximated("cos", "np.cos({0})"),
    "tanh": approximated("tanh", "np.tanh({0})"),
    "testp": test,
}
