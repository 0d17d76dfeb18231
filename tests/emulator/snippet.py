"""Short PTX kernels for tests: a body between a header and `ret`, with arrays as parameters."""

from typing import Any

import numpy as np
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.report import Report

REGISTERS = """
    .reg .pred %p<32>;
    .reg .b16 %h<32>;
    .reg .b32 %r<128>;
    .reg .b64 %rd<64>;
"""


def kernel(body: str, parameters: int = 0, threads: int = 32, declarations: str = "") -> str:
    """PTX text; %rd0, %rd1, ... hold the parameters."""
    declared = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "\n".join(f"    ld.param.b64 %rd{n}, [p{n}];" for n in range(parameters))
    return f"""
.version 8.8
.target sm_100a
.address_size 64
{declarations}
.visible .entry snippet({declared})
.reqntid {threads}, 1, 1
{{
{REGISTERS}
{loads}
{body}
    ret;
}}
"""


def run(body: str, *arrays: Any, threads: int = 32, declarations: str = "", **options: Any) -> Report:
    """Run a body with its arrays."""
    return run_ptx(kernel(body, len(arrays), threads, declarations), arrays, **options)


def fault(body: str, *arrays: Any, **options: Any) -> Any:
    """The only fault of a body."""
    report = run(body, *arrays, **options)
    assert len(report.faults) == 1, report
    return report.faults[0]


def lanes(operation: str, *inputs: np.ndarray, outputs: int = 1, bits: int = 32) -> np.ndarray:
    """Apply instructions to 32 lanes: inputs in %r1, %r2, ... (or %rd11, ... of 64 bits), results from %r100, %r101, ... (%rd50).

    Returns unsigned integers, (32,) or (outputs, 32).
    """
    size = bits // 8
    register = {32: "%r{}", 64: "%rd1{}"}[bits]
    result = {32: "%r10{}", 64: "%rd5{}"}[bits]
    given = [np.ascontiguousarray(np.broadcast_to(array, 32)) for array in inputs]
    assert all(array.itemsize == size for array in given)
    out = np.zeros((outputs, 32), f"u{size}")
    lines = ["mov.u32 %r0, %laneid;", f"mul.wide.u32 %rd9, %r0, {size};"]
    for number in range(len(given)):
        lines += [f"add.s64 %rd8, %rd{number}, %rd9;", f"ld.global.b{bits} {register.format(number + 1)}, [%rd8];"]
    lines += [operation, f"add.s64 %rd8, %rd{len(given)}, %rd9;"]
    lines += [f"st.global.b{bits} [%rd8+{32 * size * number}], {result.format(number)};" for number in range(outputs)]
    run("\n".join(lines), *given, out).check()
    return out[0] if outputs == 1 else out
