"""NVIDIA's own checker over forwards and backwards: no access outside of what was allocated, and none misaligned."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.small_constants import path_of

# Errors of driver calls are torch's to raise, and do not count here: a process that compiles loads cuda-bindings, which asks the
# driver for 34 functions that it may not have.
CHECK = ("--tool", "memcheck", "--report-api-errors", "no", "--show-backtrace", "device", "--print-limit", "10")
FOUND = 9
OWN_MEMORY = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # an allocation a tensor: what lies beside it is nobody's
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
OUTSIDE = """
import torch
class Longer:
    def __init__(self, array):
        self.__cuda_array_interface__ = {"shape": (4096,), "typestr": "<f4", "data": (array.data_ptr(), False), "version": 3}
array = torch.ones(64, device="cuda")
torch.as_tensor(Longer(array), device="cuda").sum()
torch.cuda.synchronize()
"""
REPORTS = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at attend+0x1230
=========     Access at 0x7f0000000100 is out of bounds
=========
ran
========= Invalid __global__ write of size 16 bytes
=========     at attend+0x2340
=========
========= ERROR SUMMARY: 2 errors
"""


def checked(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program under the checker."""
    checker = shutil.which("compute-sanitizer")
    if checker is None:
        pytest.skip("needs compute-sanitizer, which comes with the CUDA toolkit")
    command = [checker, *CHECK, "--error-exitcode", str(FOUND), sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | OWN_MEMORY)


def first_report(text: str) -> str:
    """The first of the checker's reports, and how many there are."""
    lines = [line.rstrip() for line in text.splitlines() if line.startswith("=========")]
    reports = [line for line in lines if line.removeprefix("=========").strip() not in ("", "COMPUTE-SANITIZER")]
    ends = [at for at, line in enumerate(reports) if at and not line.startswith("=========  ")]
    first = reports[: ends[0] if ends else None]
    return "\n".join(first + reports[-1:] if ends else first)


@pytest.mark.parametrize("variant", ["causal", "gemma2_local", "relative_bias", "document_causal", "packed_varlen", "gpt_oss"])
def test_nothing_outside_of_what_was_allocated_is_touched(device, variant):
    found = checked(SCRIPT, str(path_of(variant)))
    assert found.returncode == 0 and "ran" in found.stdout, first_report(found.stdout) + "\n" + found.stderr[-2000:]


def test_an_access_outside_of_what_was_allocated_is_reported(device):
    found = checked(OUTSIDE)
    assert (found.returncode, "Invalid __global__ read" in first_report(found.stdout)) == (FOUND, True), found.stdout[:2000]


def test_what_is_shown_is_the_first_report_and_the_count():
    shown = first_report(REPORTS)
    assert shown.splitlines() == [*REPORTS.splitlines()[1:4], REPORTS.splitlines()[-1]]
    assert (
        first_report("========= COMPUTE-SANITIZER\nran\n========= ERROR SUMMARY: 0 errors\n")
        == "========= ERROR SUMMARY: 0 errors"
    )
