"""ldmatrix, stmatrix and movmatrix: images of registers and shared memory, rows at scattered addresses."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry

# lane -> row address: 5 is odd, so the 32 rows of 16 bytes are all different
ROW = "mul.lo.u32 %r1, %lane, 5;\nadd.u32 %r1, %r1, 3;\nand.b32 %r1, %r1, 31;\nshl.b32 %r1, %r1, 4;\nadd.u32 %r1, %r1, %r20;\n"
FILL = """mov.u32 %r20, image;
shl.b32 %r2, %lane, 4;
add.u32 %r3, %r20, %r2;
cvt.u64.u32 %d1, %r2;
add.u64 %d1, %in, %d1;
ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d1];
"""
SHARED = ".shared .align 128 .b8 image[512];"
SHAPES = [(count, transposed) for transposed in ("", ".trans") for count in (1, 2, 4)]


def loads() -> Probe:
    """`out[variant, lane, register]`."""
    lines = [FILL, "st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};\nbar.sync 0;", ROW, "mad.wide.u32 %out, %lane, 16, %out;"]
    for row, (count, transposed) in enumerate(SHAPES):
        names = ", ".join(f"%r{10 + i}" for i in range(count))
        lines.append("\n".join(f"mov.b32 %r{10 + i}, 0xEEEEEEEE;" for i in range(4)))
        lines.append(f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{names}}}, [%r1];")
        lines.append(f"st.global.v4.b32 [%out+{row * 512}], {{%r10, %r11, %r12, %r13}};")
    lines.append("movmatrix.sync.aligned.m8n8.trans.b16 %r14, %r4;")
    lines.append(f"st.global.b32 [%out+{len(SHAPES) * 512}], %r14;")
    out = Buffer("out", np.zeros((len(SHAPES) + 1, 32, 4), np.uint32), kept=True)
    inputs = Buffer("in", np.arange(256, dtype=np.uint16) + 0x1000)
    return Probe(
        "matrix_loads", "9.7.14.5 ldmatrix, movmatrix", entry(["in", "out"], "\n".join(lines), SHARED), (inputs, out), block=32
    )


def stores() -> Probe:
    """`out[variant, 512 bytes as words]`: shared memory after each store over 0xEE bytes."""
    lines = [
        FILL,
        ROW,
        "shl.b32 %r2, %lane, 4;\nadd.u32 %r3, %r20, %r2;\nmad.wide.u32 %out, %lane, 16, %out;\nmov.b32 %r8, 0xEEEEEEEE;",
    ]
    for row, (count, transposed) in enumerate(SHAPES):
        names = ", ".join(f"%r{4 + i}" for i in range(count))
        lines.append("st.shared.v4.b32 [%r3], {%r8, %r8, %r8, %r8};\nbar.sync 0;")
        lines.append(f"stmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 [%r1], {{{names}}};\nbar.sync 0;")
        lines.append("ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3];\nbar.sync 0;")
        lines.append(f"st.global.v4.b32 [%out+{row * 512}], {{%r10, %r11, %r12, %r13}};")
    out = Buffer("out", np.zeros((len(SHAPES), 128), np.uint32), kept=True)
    inputs = Buffer("in", np.arange(256, dtype=np.uint16) + 0x1000)
    return Probe("matrix_stores", "9.7.14.5 stmatrix", entry(["in", "out"], "\n".join(lines), SHARED), (inputs, out), block=32)


def probes() -> list[Probe]:
    return [loads(), stores()]
