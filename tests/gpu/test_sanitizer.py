"""NVIDIA's own checker over forwards and backwards: no access outside of what was allocated, and none misaligned."""

import shutil
import subprocess
import sys

import pytest

from tests.small_constants import path_of

SCRIPT = """
import sys, torch, attnspec
from attnspec.runtime.draw_inputs import Shape, draw_inputs, fit_shape
attention = attnspec.build(sys.argv[1])
shape = fit_shape(attention.spec, Shape(2, 2, 1, 300, 417))
inputs = draw_inputs(attention.spec, shape, 1).on(torch.device("cuda"))
given = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | inputs.tensors
leaves = {name: given[name].clone().requires_grad_() for name in ("q", "k", "v", *attention.learned)}
for deterministic in (False, True):
    out = attention(**(given | leaves), deterministic=deterministic, **inputs.keywords)
    torch.autograd.grad(out, list(leaves.values()), inputs.dout)
torch.cuda.synchronize()
print("ran")
"""


@pytest.mark.parametrize("variant", ["causal", "gemma2_local", "relative_bias", "document_causal", "packed_varlen", "gpt_oss"])
def test_nothing_outside_of_what_was_allocated_is_touched(device, variant):
    checker = shutil.which("compute-sanitizer")
    if checker is None:
        pytest.skip("needs compute-sanitizer, which comes with the CUDA toolkit")
    command = [checker, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, "-c", SCRIPT, str(path_of(variant))]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0 and "ran" in found.stdout, found.stdout[-3000:] + found.stderr[-2000:]
