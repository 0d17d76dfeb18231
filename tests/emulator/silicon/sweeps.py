"""Approximate functions over every mantissa of an octave (thread i takes the i-th float from `first` on), and over all floats in
steps of 1024, which shows signs, every exponent and what is not finite."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry

# function: first bits of each octave swept
OCTAVES = {
    "ex2": (0x3F800000, 0x3F000000, 0xBF800000, 0x40000000, 0x3D800000, 0x42000000),
    "rcp": (0x3F800000,),
    "rsqrt": (0x3F800000, 0x40000000),
    "sqrt": (0x3F800000, 0x40000000),
    "lg2": (0x3F000000, 0x3F800000, 0x40000000, 0x42000000),
    "tanh": (0x3C000000, 0x3D800000, 0x3E000000, 0x3E800000, 0x3F000000, 0x3F800000, 0x40000000, 0x40800000, 0x41000000,
             0x3A000000, 0x3B800000, 0x3C800000, 0x3D000000, 0x3A800000, 0x3B000000),
    "sin": (0x3C000000, 0x3E000000, 0x3E800000, 0x3F000000, 0x3F800000, 0x40000000, 0x40800000, 0x41000000, 0x43000000),
    "cos": (0x3C000000, 0x3E000000, 0x3E800000, 0x3F000000, 0x3F800000, 0x40000000, 0x40800000, 0x41000000, 0x43000000),
}  # fmt: skip
OCTAVE = 1 << 23
COARSE = 1024  # the step of the sweeps over all floats


def instruction_of(function: str) -> str:
    return f"{function}.approx.f32" if function == "tanh" else f"{function}.approx.ftz.f32"


def sweep(function: str, first: int) -> Probe:
    instruction = instruction_of(function)
    body = f"""add.u32 %r1, %index, {first};
{instruction} %r2, %r1;
mad.wide.u32 %out, %index, 4, %out;
st.global.b32 [%out], %r2;"""
    out = Buffer("out", np.zeros(OCTAVE, np.uint32), kept=True)
    name = f"sweep_{function}_{first:08x}"
    return Probe(name, f"9.7.3 {function}.approx", entry(["out"], body), (out,), grid=OCTAVE // 256, block=256, whole=True)


def coarse(function: str) -> Probe:
    count = (1 << 32) // COARSE
    body = f"""mul.lo.u32 %r1, %index, {COARSE};
{instruction_of(function)} %r2, %r1;
mad.wide.u32 %out, %index, 4, %out;
st.global.b32 [%out], %r2;"""
    out = Buffer("out", np.zeros(count, np.uint32), kept=True)
    return Probe(
        f"coarse_{function}", f"9.7.3 {function}.approx", entry(["out"], body), (out,), grid=count // 256, block=256, whole=True
    )


def probes() -> list[Probe]:
    found = [sweep(function, first) for function, octaves in OCTAVES.items() for first in octaves]
    return found + [coarse(function) for function in OCTAVES]
