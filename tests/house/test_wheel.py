"""The wheel, installed into an environment of its own outside the repository, has all that the package needs."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SPEC = "attention mine\nhead_dim 64\nlearned slope: f32[heads]\nscore = score - slope[h] * (qpos - kv)\nmask = causal\n"
CALL = """
import torch, attnspec
q = torch.randn(1, 40, 2, 64).bfloat16().requires_grad_()
attnspec.build("mine.attn")(q, q, q, slope=torch.ones(2)).float().sum().backward()
print(attnspec.__file__, q.grad.abs().max() > 0)
"""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_installed_wheel_checks_explains_runs_and_compiles(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT, folder=tmp_path)
    (wheel,) = wheels.glob("attnspec-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env", folder=tmp_path)
    python = tmp_path / "env/bin/python"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel, folder=tmp_path)
    # What it depends on is that of the environment that the tests run in, its `.pth` files too, behind what was installed here.
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip()
    (Path(own) / "dependencies.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (tmp_path / "mine.attn").write_text(SPEC)
    attnc = tmp_path / "env/bin/attnc"
    assert "ok  mine" in run(attnc, "check", "mine.attn", folder=tmp_path)
    assert "pass:" in run(attnc, "run", "mine.attn", "--shape", "b=1,h=2,q=20,kv=30", folder=tmp_path)
    run(attnc, "explain", "gemma2_local", "--html", "page.html", folder=tmp_path)
    assert "</html>" in (tmp_path / "page.html").read_text()
    run(attnc, "compile", "mine.attn", "-o", "made", "--forward-only", folder=tmp_path)
    assert (tmp_path / "made/forward.cubin").read_bytes().startswith(b"\x7fELF")
    said = run(python, "-c", CALL, folder=tmp_path)
    assert said.startswith(own) and "True" in said
