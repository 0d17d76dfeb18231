"""Atomics, bulk reductions and cp.async: how memory adds treat subnormals, NaN and short sources."""

import numpy as np

from tests.emulator.silicon.operands import float_triples, integer_triples, words
from tests.emulator.silicon.probe import Buffer, Probe, entry

COUNT = 640
ATOMICS = {
    "add.f32": "f32", "add.u32": "u32", "min.s32": "u32", "max.s32": "u32", "min.u32": "u32", "max.u32": "u32", "and.b32": "u32",
    "or.b32": "u32", "xor.b32": "u32", "exch.b32": "u32", "inc.u32": "u32", "dec.u32": "u32", "add.noftz.f16x2": "u32",
    "add.noftz.bf16x2": "u32",
}  # fmt: skip


def atomics(space: str) -> Probe:
    """`out[operation, element, 2]`: the returned old value and what memory holds after, initial a, operand b."""
    operands = dict(zip("ab", float_triples(COUNT, seed=81)[:2]))
    operands |= dict(zip("ij", integer_triples(COUNT, seed=82)[:2]))
    lines = [f"mad.wide.u32 %{n}, %index, 4, %{n};\nld.global.b32 %r{k + 1}, [%{n}];" for k, n in enumerate("abij")]
    lines.append("mad.wide.u32 %out, %index, 8, %out;\nmad.wide.u32 %room, %index, 4, %room;")
    lines.append("mov.u32 %r9, cell;\nmad.lo.u32 %r9, %thread, 4, %r9;")
    place = "%r9" if space == "shared" else "%room"
    variants = [(f"atom.relaxed.gpu.{space}.{name}", kind) for name, kind in ATOMICS.items()]
    for row, (instruction, kind) in enumerate(variants):
        first, second = ("%r1", "%r2") if kind == "f32" else ("%r3", "%r4")
        lines.append(
            f"st.{space}.b32 [{place}], {first};\n{instruction} %r5, [{place}], {second};\nld.{space}.b32 %r6, [{place}];"
        )
        lines.append(f"st.global.v2.b32 [%out+{row * COUNT * 8}], {{%r5, %r6}};")
    lines.append(f"st.{space}.b32 [{place}], %r3;\natom.relaxed.gpu.{space}.cas.b32 %r5, [{place}], %r4, 77;")
    lines.append(f"ld.{space}.b32 %r6, [{place}];\nst.global.v2.b32 [%out+{len(variants) * COUNT * 8}], {{%r5, %r6}};")
    buffers = [Buffer(n, a) for n, a in operands.items()]
    room = Buffer("room", np.zeros(COUNT, np.uint32))
    out = Buffer("out", np.zeros((len(variants) + 1, COUNT, 2), np.uint32), kept=True)
    text = entry(["a", "b", "i", "j", "room", "out"], "\n".join(lines), ".shared .align 4 .b32 cell[128];")
    return Probe(f"atomics_{space}", "9.7.13.5 atom", text, (*buffers, room, out), grid=COUNT // 128)


REDUCTIONS = {
    "add.f32": 4, "add.u32": 4, "min.s32": 4, "max.u32": 4, "and.b32": 4, "add.noftz.f16": 2, "add.noftz.bf16": 2, "min.f16": 2,
    "max.bf16": 2, "add.u64": 8,
}  # fmt: skip


def bulk_reductions() -> Probe:
    """cp.reduce.async.bulk of 2048 bytes of b onto a, one row of `out` an operation (starting as copies of a)."""
    first, second = (column[:512] for column in float_triples(640, seed=83)[:2])
    lines = ["shl.b32 %r1, %thread, 4;\nmov.u32 %r2, room;\nadd.u32 %r3, %r1, %r2;\ncvt.u64.u32 %d1, %r1;\nadd.u64 %d1, %b, %d1;"]
    lines.append("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d1];\nst.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};")
    lines.append("fence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %q0, %thread, 0;\n@%q0 bra END;")
    for row, name in enumerate(REDUCTIONS):
        lines.append(f"add.u64 %d2, %out, {row * 2048};")
        lines.append(f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%d2], [room], 2048;")
    lines.append("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:")
    out = Buffer("out", np.tile(first, (len(REDUCTIONS), 1)), kept=True)
    text = entry(["b", "out"], "\n".join(lines), ".shared .align 128 .b8 room[2048];")
    return Probe("bulk_reductions", "9.7.9.25 cp.reduce.async.bulk", text, (Buffer("b", second), out))


def asynchronous_copies() -> Probe:
    """cp.async with a short or ignored source: `out[variant, thread, 4]` over shared memory of 0xEE bytes."""
    variants = ("ca.shared.global [%r3], [%d1], 16, 5;", "ca.shared.global [%r3], [%d1], 8, 3;",
                "ca.shared.global [%r3], [%d1], 4, 0;",
                "cg.shared.global [%r3], [%d1], 16;", "cg.shared.global [%r3], [%d1], 16, 0;",
                "ca.shared.global [%r3], [%d1], 16, %q1;")  # fmt: skip
    lines = [
        "shl.b32 %r1, %thread, 4;\nmov.u32 %r2, room;\nadd.u32 %r3, %r1, %r2;\ncvt.u64.u32 %d1, %r1;\nadd.u64 %d2, %out, %d1;"
    ]
    lines.append("add.u64 %d1, %in, %d1;\nmov.b32 %r8, 0xEEEEEEEE;\nand.b32 %r9, %thread, 1;\nsetp.eq.u32 %q1, %r9, 1;")
    for row, copy in enumerate(variants):
        lines.append(
            f"st.shared.v4.b32 [%r3], {{%r8, %r8, %r8, %r8}};\ncp.async.{copy}\ncp.async.commit_group;\ncp.async.wait_group 0;"
        )
        lines.append(
            f"ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r3];\nst.global.v4.b32 [%d2+{row * 512}], {{%r4, %r5, %r6, %r7}};"
        )
    out = Buffer("out", np.zeros((len(variants), 32, 4), np.uint32), kept=True)
    text = entry(["in", "out"], "\n".join(lines), ".shared .align 128 .b8 room[512];")
    return Probe("async_copies", "9.7.9.25 cp.async", text, (Buffer("in", words(84, 128)), out), block=32)


def probes() -> list[Probe]:
    return [atomics("global"), atomics("shared"), bulk_reductions(), asynchronous_copies()]
