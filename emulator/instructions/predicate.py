"""Comparison, selection and predicate logic. PTX ISA 9.7.6, 9.7.8."""

from attnspec.emulator.instructions.rule import DTYPES, UNTYPED, Pure, kind_of, only, unsupported
from attnspec.emulator.ptx.operands import Instruction, Two

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SAME = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINED = {"and": "&", "or": "|", "xor": "^"}


def comparison(name: str, kind: str) -> str | None:
    """Code of `a NAME b`. The unordered forms (equ, neu, ...) are also true when an operand is NaN."""
    name = SAME.get(name, name) if not kind.startswith("f") else name
    if name in COMPARISONS:
        # numpy's != is true for NaN, PTX's ordered `ne` is not.
        ordered = " & ({0} == {0}) & ({1} == {1})" if name == "ne" and kind.startswith("f") else ""
        return f"({{0}} {COMPARISONS[name]} {{1}}){ordered}"
    if name.endswith("u") and name[:-1] in COMPARISONS:
        return f"({{0}} {COMPARISONS[name[:-1]]} {{1}}) | ({{0}} != {{0}}) | ({{1}} != {{1}})"
    return {"num": "({0} == {0}) & ({1} == {1})", "nan": "({0} != {0}) | ({1} != {1})"}.get(name)


def set_predicate(instruction: Instruction) -> Pure:
    """setp.CMP[.BOOL].TYPE p[|q], a, b[, c]: p = (a CMP b) BOOL c, q = !(a CMP b) BOOL c."""
    words = [word for word in instruction.parts[1:] if word != "ftz"]
    kind = kind_of(instruction, words[-1])
    if len(words) not in (2, 3) or (len(words) == 3 and words[1] not in COMBINED):
        raise unsupported(instruction, "this form")
    code = comparison(words[0], kind)
    if code is None:
        raise unsupported(instruction, f"comparison .{words[0]}")
    if "ftz" in instruction.parts:
        code = code.format("A.flush({0})", "A.flush({1})")
    target, *sources = instruction.operands
    reads = ((sources[0], kind), (sources[1], kind))
    combine = ""
    if len(words) == 3:
        reads = (*reads, (sources[2], "pred"))
        combine = f" {COMBINED[words[1]]} {{2}}"
    if isinstance(target, Two):
        return Pure(f"({code}){combine}, ~({code}){combine}", reads, ((target.first, "pred"), (target.second, "pred")))
    return Pure(f"({code}){combine}", reads, ((target, "pred"),))


def set_value(instruction: Instruction) -> Pure:
    """set.CMP[.BOOL].TO.FROM d, a, b[, c]: all ones or 0; 1.0 or 0.0 for .f32"""
    words = [word for word in instruction.parts[1:] if word != "ftz"]
    to, source = words[-2:]
    kind, code = kind_of(instruction, source), comparison(words[0], kind_of(instruction, source))
    if code is None or len(words) not in (3, 4) or to not in ("u32", "s32", "f32"):
        raise unsupported(instruction, "this form")
    if "ftz" in instruction.parts:
        code = code.format("A.flush({0})", "A.flush({1})")
    target, a, b, *rest = instruction.operands
    reads = ((a, kind), (b, kind), *((one, "pred") for one in rest))
    condition = f"({code}){f' {COMBINED[words[1]]} {{2}}' if rest else ''}"
    yes = "T_f32(1), T_f32(0)" if to == "f32" else "T_u32(0xFFFFFFFF), T_u32(0)"
    return Pure(f"np.where({condition}, {yes})", reads, ((target, "f32" if to == "f32" else "u32"),))


def select(instruction: Instruction) -> Pure:
    """selp.TYPE d, a, b, p"""
    only(instruction, instruction.parts[-1])
    target, a, b, condition = instruction.operands
    word = instruction.parts[-1]
    kind = UNTYPED.get(word, word)
    kind = kind if kind in DTYPES and kind[0] in "us" else {"f32": "u32", "f64": "u64", "f16": "u16"}[kind]
    return Pure("np.where({2}, {0}, {1})", ((a, kind), (b, kind), (condition, "pred")), ((target, kind),))


def logic(code: str):
    """and.pred and its like; None for other types."""

    def rule(instruction: Instruction) -> Pure | None:
        if instruction.parts[-1] != "pred":
            return None
        only(instruction, "pred")
        target, *sources = instruction.operands
        return Pure(code, tuple((source, "pred") for source in sources), ((target, "pred"),))

    return rule


TABLE = {
    "setp": set_predicate,
    "set": set_value,
    "selp": select,
    "and": logic("{0} & {1}"),
    "or": logic("{0} | {1}"),
    "xor": logic("{0} ^ {1}"),
    "not": logic("~{0}"),
}
