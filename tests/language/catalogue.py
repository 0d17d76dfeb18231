"""Every error of the language by example: the smallest file that shows it, the place marked with « ».

`python -m tests.language.catalogue` writes docs/errors.md from it.
"""

from pathlib import Path

from attnspec.language.check import check
from attnspec.language.diagnostics import Diagnostic, SpecError
from attnspec.language.parse import parse

HEADER = "attention example\nhead_dim 128\n"
PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

# Statements after HEADER; several examples of one name are split by a line of dashes.
STATEMENTS: dict[str, str] = {
    # Text.
    "control-character": "score = score«\a»",
    "not-ascii": "mask = kv «≤» q",
    # Syntax.
    "assignment-instead-of-equality": "mask = q «=» kv",
    "bad-number": "score = score * «2x»",
    "empty-shape": "input bias: f32[«]»",
    "missing-else": "score = score if kv < q« »",
    "missing-equals": "score «score» + 1",
    "missing-name": "let «=» 3",
    "missing-number": "group «x»",
    "missing-operand": "mask = kv <=« »",
    "missing-operator": "const cap = 30.0\nscore = score «cap»",
    "missing-parenthesis": "const cap = 30.0\nscore = softcap«(»score, cap\nmask = causal",
    "missing-range-end": "input n: i32 in 0« »",
    "missing-type": "learned bias« »",
    "needless-equals": "dtype «=» bf16",
    "syntax": "const x = 1.5«.5»",
    "text-after-statement": "dtype bf16 «fp16»",
    "unknown-character": "score = score * math«.pi»",
    "unknown-operator": "mask = kv <= q «&&» kv > 3",
    "unknown-statement": "«scoer» = score * 2",
    "unmatched-parenthesis": "score = score + 1«)»",
    "duplicate-property": "input «n»: i32[batch] in 0..3 in 0..4\nmask = kv < n[b]",
    # Names.
    "name-taken": "const «kv» = 3",
    "name-too-long": f"const «{'n' * 65}» = 3",
    "unknown-name": "score = «scroe» * 2",
    "unknown-function": "score = «soft_cap»(score, 30)",
    "function-without-arguments": "score = «tanh» * score",
    "not-a-function": "const window = 64\nmask = «window»(window, 0)",
    "not-a-tensor": "const n = 3\nscore = score + «n»[h]",
    "recursive-def": "def «f»(x) = f(x - 1)",
    "wrong-argument-count": "score = «softcap(score)»",
    "argument-out-of-range": "score = softcap(score, «-30.0»)",
    "none-has-no-value": "score = score + «none»",
    "none-test-outside-function": "mask = causal if «q is none» else kv < 3",
    # Kinds and constants.
    "kind-mismatch": "score = score + «(kv < q)»",
    "not-constant": "const width = «len_kv»",
    "integer-out-of-range": "const n = «3000000000»\nmask = kv < n",
    "integer-overflow": "score = score + float(clamp(«8 + floor(log(float(q) + 1.0))», 0, 16))",
    "float-out-of-range": "score = score + «1e39»",
    "function-out-of-range": "score = score * «log(0.0)»",
    "division-by-zero": "const n = 0\nmask = kv // «n» == q // 4",
    "divisor-may-be-zero": "mask = kv % «(q - 3)» == 0",
    "shift-out-of-range": "mask = (1 << «kv») > 5",
    # Tensors.
    "unknown-type": "input bias: «f64»[heads]\nscore = score + bias[h]",
    "learned-not-float": "learned table: «i32»[heads]\nscore = score + table[h]",
    "learned-not-used": "«learned bias: f32»[heads]\nscore = score * 2",
    "learned-in-mask": "learned cut: f32[heads]\nmask = kv * 1.0 < «cut[h]»",
    "not-a-size": "input bias: f32[«kv»]",
    "shape-not-linear": "input bias: f32[«len_q * len_kv»]",
    "shape-not-positive": "const n = 0\ninput table: f32[«n»]",
    "too-many-axes": "input «t»: f32[2, 2, 2, 2, 2, 2, 2, 2, 2]",
    "varlen-shape": "varlen\ninput bias: f32[heads, «len_q»]",
    "empty-range": "input n: i32[batch] in «5»..2\nmask = kv < n[b]",
    "not-sortable": "«input n: f32»[len_kv] sorted\nscore = score + n[kv]",
    "tensor-not-indexed": "input slopes: f32[heads]\nscore = score + «slopes»",
    "scalar-indexed": "input bias: f32\nscore = score + «bias[h, q, kv]»",
    "wrong-index-count": "input bias: f32[heads, len_q, len_kv]\nscore = score + «bias[q, kv]»",
    "index-not-integer": "input table: f32[8]\nscore = score + table[«scale»]",
    "index-may-leave-extent": "learned bias: f32[128]\nscore = score + bias[«qpos - kv»]",
    # Statements.
    "attention-not-first": "",
    "missing-statement": "",
    "duplicate-statement": "mask = causal\n«mask = kv > 3»",
    "bad-head-dim": "",
    "bad-group": "group «0»",
    "score-in-mask": "mask = «score» > 0",
    "mask-hides-every-key": "const window = -5\nmask = «kv <= qpos and kv > qpos - window»",
    "not-per-head": "sink = «q» * 1.0",
    "scale-not-uniform": "scale 1.0 / «len_kv»",
    # Limits.
    "nested-too-deep": f"score = {'(' * 200}«(»score{')' * 201}",
    "statement-too-long": f"«s»core = score + min(1, {'1, ' * 6000}1)",
    "expression-too-large": "\n".join(
        ["let x0 = score + 1", *(f"let x{n + 1} = " + ("«{}»" if n == 11 else "{}").format(f"x{n} * x{n}") for n in range(13))]
    ),
    "too-much-to-expand": "\n".join(
        ["def f0(x) = 1", *(f"def f{n + 1}(x) = f{n}(1) + f{n}(2) - f{n}(3)" for n in range(11)), "score = f11(1)"]
    ),
}
WHOLE: dict[str, str] = {
    "attention-not-first": "«head_dim 128»\nattention example\n",
    "missing-statement": "«attention example»\nmask = causal\n",
    "bad-head-dim": "attention example\nhead_dim «12»\n",
}
# Names that no text shows: what reading a file, or values from outside, are refused for.
ELSEWHERE = {
    "bad-override": "a value for a constant (`-D NAME=VALUE`, `build(..., NAME=value)`) that is not a finite 32-bit number",
    "cannot-read": "a path that cannot be opened",
    "file-too-large": "a file of more than 256 KiB, of more than 50,000 words and signs, or of more than 1,000 statements",
    "not-utf-8": "a file that is not UTF-8",
    "unknown-constant": "a value for a constant that the file does not have",
}


# Names of errors that are not about the text of a file, and the exit code that `attnc` leaves with.
BEYOND = {
    "argument": ("an argument of a call, or a file or folder to write, that does not fit", 2),
    "cache": ("a cache folder that cannot be used, or that others can write to", 3),
    "disk-full": ("a file that the disk has no room for", 3),
    "emulator": ("PTX that the emulator does not know", 3),
    "faults": (
        "races, deadlocks and other faults of a kernel that the emulator found; [their kinds](emulator.md) are names too",
        1,
    ),
    "internal": ("a fault of attnspec's own; please report it, with the folder that the message names", 70),
    "interrupted": ("a run that was stopped from outside", 130),
    "memory": ("a run that needs more memory than there is", 3),
    "missing-package": ("an optional package that is not installed; the message names it", 3),
    "not-on-this-target": ("a statement that a target cannot run, with the reason; the reference runs every variant", 3),
    "target": ("a target that cannot do what was asked for, or not here", 3),
    "usage": ("a wrong command line", 2),
}
# Names of what `attnspec.from_flex` refuses a function for, beside those of the language; each shows the function's line.
TRACED = {
    "index-has-axes": "an index that has axes itself",
    "index-out-of-range": "an index outside its axis",
    "no-such-axis": "an axis that the tensor does not have",
    "not-a-number": "a value that is no number of the kind wanted",
    "not-in-place": "an operation that changes its argument",
    "not-one-number": "a captured tensor, or a Python number wanted of one, while the function is traced",
    "not-traceable": "a step that leaves torch, so that nothing of it can be seen",
    "not-vectors": "a product of what is not two vectors of one length",
    "python-control-flow": "`if`, `while` or `and` on a value that differs from element to element",
    "random-numbers": "random numbers: a kernel draws none",
    "returns-no-value": "a function that returns nothing, or no tensor",
    "shapes-differ": "tensors whose shapes do not go together",
    "slice-not-fixed": "a slice whose ends differ from element to element",
    "unknown-power": "a power with neither a whole exponent of a few, nor a constant base above 0",
}


def example(name: str) -> tuple[str, int, int]:
    """The file that shows an error, and where: its text, and the marked range of characters."""
    marked = WHOLE.get(name) or f"{HEADER}{STATEMENTS[name]}\n"
    start = marked.find("«")
    text = marked.replace("«", "").replace("»", "")
    return text, start, marked.find("»") - 1


def first_fault(text: str) -> Diagnostic:
    """What a file is refused for first."""
    try:
        check(parse(text, "example.attn"))
    except SpecError as error:
        return error.diagnostics[0]
    raise AssertionError(f"this file is not refused:\n{text}")


INTRODUCTION = """
Every error that a file can be refused for, by its stable name. The examples are tests. What a call, a target or a command line
is refused for, and functions that `attnspec.from_flex` cannot trace, stand in two tables [at the end](#beyond-the-file).
""".strip()


def page() -> str:
    """docs/errors.md."""
    lines = ["# Errors", "", INTRODUCTION, ""]
    for name in sorted([*STATEMENTS, *ELSEWHERE]):
        lines += [f"## {name}", ""]
        if name in ELSEWHERE:
            lines += [f"For {ELSEWHERE[name]}.", ""]
            continue
        shown = str(first_fault(example(name)[0])).splitlines()
        lines += ["```", *(row if len(row) <= 160 else f"{row[:157]}..." for row in shown), "```", ""]
    lines += ["## Beyond the file", "", "| name | for | exit code |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {what} | {code} |" for name, (what, code) in BEYOND.items()]
    lines += ["", "## Functions of FlexAttention", "", "| name | for |", "| --- | --- |"]
    lines += [f"| `{name}` | {what} |" for name, what in TRACED.items()] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
