"""Approximate functions of 16-bit floats over all codes: thread i takes code i in the lower half, and 65535 - i in the upper."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry

CODES = 1 << 16
FUNCTIONS = {
    "tanh_f16": "tanh.approx.f16x2",
    "tanh_bf16": "tanh.approx.bf16x2",
    "ex2_f16": "ex2.approx.f16x2",
    "ex2_bf16": "ex2.approx.ftz.bf16x2",
}


def table(name: str) -> Probe:
    """`out[code]`: the lower half is the function of the code."""
    body = f"""sub.u32 %r1, {CODES - 1}, %index;
shl.b32 %r1, %r1, 16;
or.b32 %r1, %r1, %index;
{FUNCTIONS[name]} %r2, %r1;
mad.wide.u32 %out, %index, 4, %out;
st.global.b32 [%out], %r2;"""
    out = Buffer("out", np.zeros(CODES, np.uint32), kept=True)
    return Probe(f"table_{name}", "9.7.4 tanh, ex2 of halves", entry(["out"], body), (out,), grid=CODES // 256, block=256)


def probes() -> list[Probe]:
    return [table(name) for name in FUNCTIONS]
