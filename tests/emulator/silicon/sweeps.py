"""Approximate functions over every mantissa of an octave; thread i takes the i-th float from `first` on."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry

# function: first bits of each octave swept
OCTAVES = {
    "ex2": (0x3F800000, 0x3F000000, 0xBF800000, 0x40000000, 0x3D800000, 0x42000000),
    "rcp": (0x3F800000,),
    "rsqrt": (0x3F800000, 0x40000000),
    "sqrt": (0x3F800000, 0x40000000),
    "lg2": (0x3F000000, 0x3F800000, 0x40000000, 0x42000000),
    "tanh": (0x3C000000, 0x3D800000, 0x3E000000, 0x3E800000, 0x3F000000, 0x3F800000, 0x40000000, 0x40800000, 0x41000000),
}
OCTAVE = 1 << 23


def sweep(function: str, first: int) -> Probe:
    instruction = f"{function}.approx.f32" if function == "tanh" else f"{function}.approx.ftz.f32"
    body = f"""add.u32 %r1, %index, {first};
{instruction} %r2, %r1;
mad.wide.u32 %out, %index, 4, %out;
st.global.b32 [%out], %r2;"""
    out = Buffer("out", np.zeros(OCTAVE, np.uint32), kept=True)
    name = f"sweep_{function}_{first:08x}"
    return Probe(name, f"9.7.3 {function}.approx", entry(["out"], body), (out,), grid=OCTAVE // 256, block=256, whole=True)


def probes() -> list[Probe]:
    return [sweep(function, first) for function, octaves in OCTAVES.items() for first in octaves]
