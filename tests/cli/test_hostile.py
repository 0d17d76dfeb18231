"""A hostile .attn runs no code, writes nothing outside its output folder, and ends soon."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import GOOD, Attnc

INJECTED = 'a\nimport os; os.system("touch pwned")\n"""\nimport os; os.system("touch pwned") #.attn'
SHAPE = ("--shape", "b=1,h=2,hkv=1,q=3,kv=3")


def imports(path: Path) -> set[str]:
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in found}


@pytest.mark.parametrize("target", ["reference", "sm100"])
def test_a_file_name_that_is_code_stays_a_comment(attnc: Attnc, target: str) -> None:
    attnc.write(GOOD, "plain.attn")
    attnc.write(GOOD, INJECTED)
    for name, folder in (("plain.attn", "plain"), (INJECTED, "injected")):
        assert attnc("compile", name, "--target", target, "--emit", "source", "-o", folder).code == 0
    for path in (attnc.folder / "injected").glob("*.py"):
        assert imports(path) == imports(attnc.folder / "plain" / path.name)
    assert attnc("run", INJECTED, *SHAPE).code == 0
    assert not (attnc.folder / "pwned").exists()


def test_a_comment_that_is_code_stays_a_comment(attnc: Attnc) -> None:
    text = GOOD.replace("score * n", 'score * n # """\n# \'\'\'; import os; os.system("touch pwned") """')
    name = attnc.write(text)
    assert attnc("compile", name, "--emit", "source", "-o", "out").code == 0
    ast.parse((attnc.folder / "out/forward.py").read_text())
    assert attnc("run", name, *SHAPE).code == 0
    assert not (attnc.folder / "pwned").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../away",
        "/tmp/away",
        "a/b",
        "..",
        ".",
        "a b",
        "a;b",
        "$(touch pwned)",
        "`touch pwned`",
        "con\\x",
        "é",
        "-o",
        "",
        "a" * 300,
    ],
)
def test_a_variant_name_that_could_lead_elsewhere_is_refused(attnc: Attnc, name: str) -> None:
    done = attnc("compile", attnc.write(GOOD.replace("small", name)), "--emit", "source")
    assert done.code == 2
    assert [path.name for path in attnc.folder.iterdir()] == ["small.attn"]
    assert [path.name for path in attnc.folder.parent.iterdir()] in (["here"], [])


WORDS = (
    "print",
    "exec",
    "len",
    "range",
    "self",
    "torch",
    "cutlass",
    "cute",
    "os",
    "at",
    "row",
    "tiles",
    "plan",
    "forward",
    "Int32",
)


def test_names_that_mean_something_in_python_mean_nothing_here(attnc: Attnc) -> None:
    declared = "\n".join(f"learned {word}: f32[heads]" for word in WORDS)
    total = " + ".join(f"{word}[h]" for word in WORDS)
    name = attnc.write(f"attention exec\nhead_dim 16\n{declared}\nscore = score + {total}\n")
    done = attnc("run", name, *SHAPE)
    assert done.code == 0, done.err
    assert attnc("compile", name, "--emit", "source").code == 0
    ast.parse((attnc.folder / "exec_sm100/forward.py").read_text())


LARGE = {
    "deep": "score = " + "(" * 10_000,
    "huge constant": f"score = score + {'9' * 5_000}",
    "megabytes": "# " + "x" * 5_000_000,
    "many lines": "mask = causal\n" * 20_000,
}


@pytest.mark.parametrize("what", LARGE)
def test_too_much_ends_in_an_error_within_a_second(attnc: Attnc, what: str) -> None:
    name = attnc.write(f"attention x\nhead_dim 16\n{LARGE[what]}\n")
    start = time.process_time()
    done = attnc("compile", name)
    assert time.process_time() - start < 1
    assert done.code == 2
    assert len(done.err) < 20_000


def test_modules_that_lie_beside_the_file_are_not_imported(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    for module in ("lark", "click", "torch", "numpy", "networkx", "cutlass", "json", "attnspec"):
        attnc.write("open('pwned', 'w'); raise SystemExit(99)", f"{module}.py")
    command = Path(sys.executable).with_name("attnc")
    done = subprocess.run([command, "explain", name], capture_output=True, text=True, cwd=attnc.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (attnc.folder / "pwned").exists()
