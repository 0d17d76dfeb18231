"""mbarrier life, one thread, one step at a time: the 64-bit word and both parities after each step."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry, read_barrier

INIT = "mbarrier.init.shared::cta.b64 [bar], {};"
ARRIVE = "mbarrier.arrive.shared::cta.b64 %d1, [bar];"
ARRIVE_MANY = "mbarrier.arrive.shared::cta.b64 %d1, [bar], {};"
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {};"
COMPLETE = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], {};"
ARRIVE_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [bar], {};"
DROP = "mbarrier.arrive_drop.shared::cta.b64 %d1, [bar];"
KEEP = "mbarrier.arrive.noComplete.shared::cta.b64 %d1, [bar], {};"

SEQUENCES = {
    "fresh": [INIT.format(1)],
    "two arrivals": [INIT.format(2), ARRIVE, ARRIVE, ARRIVE, ARRIVE, ARRIVE],
    "count operand": [INIT.format(5), ARRIVE_MANY.format(2), ARRIVE_MANY.format(3), ARRIVE_MANY.format(5)],
    "expect then deliver": [INIT.format(1), ARRIVE_EXPECT.format(64), COMPLETE.format(16), COMPLETE.format(48), ARRIVE],
    "delivered early": [INIT.format(1), COMPLETE.format(32), ARRIVE_EXPECT.format(32), ARRIVE],
    "early and late": [INIT.format(2), COMPLETE.format(32), ARRIVE, EXPECT.format(64), ARRIVE, COMPLETE.format(32)],
    "expect only": [INIT.format(1), EXPECT.format(128), COMPLETE.format(128), ARRIVE],
    "tx cancels": [INIT.format(1), EXPECT.format(128), COMPLETE.format(64), COMPLETE.format(64), ARRIVE, ARRIVE],
    "large tx": [INIT.format(1), EXPECT.format(1048575), COMPLETE.format(1048575), ARRIVE],
    "drop": [INIT.format(3), DROP, ARRIVE, ARRIVE, ARRIVE, ARRIVE, DROP, ARRIVE],
    "no complete": [INIT.format(4), KEEP.format(2), ARRIVE, ARRIVE],
    "largest count": [INIT.format(1048575), ARRIVE_MANY.format(1048574), ARRIVE],
    "again": [INIT.format(2), ARRIVE, "mbarrier.inval.shared::cta.b64 [bar];", INIT.format(3), ARRIVE],
}
STEPS = max(len(steps) for steps in SEQUENCES.values())


def steps_probe() -> Probe:
    """`out[sequence, step, 8]`: word low, high; test_wait parity 0, 1; returned state low, high; its pending count; its test.

    The word is what a plain load saw, which on the H200 is not the present one: compare columns 2 to 7.
    """
    lines = ["setp.ne.u32 %q7, %thread, 0;", "@%q7 bra END;"]
    for row, steps in enumerate(SEQUENCES.values()):
        for column, step in enumerate(steps):
            offset = 32 * (row * STEPS + column)
            gone = "inval" in step
            state = "%d1" in step
            tests = "" if gone else (
                "mbarrier.test_wait.parity.shared::cta.b64 %q0, [bar], 0;\n"
                "mbarrier.test_wait.parity.shared::cta.b64 %q1, [bar], 1;\n"
                "selp.u32 %r3, 1, 0, %q0;\nselp.u32 %r4, 1, 0, %q1;\n"
            )  # fmt: skip
            token = (
                "mov.b64 {%r5, %r6}, %d1;\nmbarrier.pending_count.b64 %r7, %d1;\n"
                "mbarrier.test_wait.shared::cta.b64 %q2, [bar], %d1;\nselp.u32 %r8, 1, 0, %q2;\n"
            )
            blank = "mov.b32 %r3, -1;\nmov.b32 %r4, -1;\nmov.b32 %r5, -1;\nmov.b32 %r6, -1;\nmov.b32 %r7, -1;\nmov.b32 %r8, -1;\n"
            lines.append(f"""{step}
{blank}{read_barrier("bar", "%d2", f"%out+{offset}")}
mov.b64 {{%r1, %r2}}, %d2;
{tests}{token if state else ""}st.global.v4.b32 [%out+{offset}], {{%r1, %r2, %r3, %r4}};
st.global.v4.b32 [%out+{offset + 16}], {{%r5, %r6, %r7, %r8}};""")
        lines.append("mbarrier.inval.shared::cta.b64 [bar];")
    lines.append("END:")
    out = Buffer("out", np.zeros((len(SEQUENCES), STEPS, 8), np.uint32), kept=True)
    text = entry(["out"], "\n".join(lines), ".shared .align 8 .b64 bar;")
    return Probe("barrier_steps", "9.7.13.15 mbarrier", text, (out,), block=32)


def lanes_probe() -> Probe:
    """Twenty lanes arrive by 2 in one instruction: the count operand is summed over the active lanes."""
    body = f"""setp.ne.u32 %q0, %thread, 0;
@%q0 bra READY;
mbarrier.init.shared::cta.b64 [bar], 40;
READY:
bar.sync 0;
setp.ge.u32 %q1, %lane, 20;
@%q1 bra REST;
mbarrier.arrive.shared::cta.b64 %d1, [bar], 2;
REST:
bar.sync 0;
{read_barrier("bar", "%d2")}
mbarrier.try_wait.parity.shared::cta.b64 %q2, [bar], 0;
mbarrier.try_wait.parity.shared::cta.b64 %q3, [bar], 1;
mov.b64 {{%r1, %r2}}, %d2;
selp.u32 %r3, 1, 0, %q2;
selp.u32 %r4, 1, 0, %q3;
mad.wide.u32 %out, %lane, 16, %out;
st.global.v4.b32 [%out], {{%r1, %r2, %r3, %r4}};"""
    out = Buffer("out", np.zeros((32, 4), np.uint32), kept=True)
    text = entry(["out"], body, ".shared .align 8 .b64 bar;")
    return Probe("barrier_lanes", "9.7.13.15 mbarrier.arrive", text, (out,), block=32)


def named_probe() -> Probe:
    """bar.arrive does not wait, bar.red counts; four warps, barriers 1 to 3, one with its number in a register."""
    body = """setp.ge.u32 %q0, %thread, 64;
mov.b32 %r1, 0;
@%q0 bra CONSUMER;
mad.lo.u32 %r2, %thread, 4, 0;
mov.u32 %r3, data;
add.u32 %r2, %r2, %r3;
st.shared.b32 [%r2], %thread;
bar.arrive 1, 128;
bra JOIN;
CONSUMER:
mov.b32 %r4, 1;
bar.sync %r4, 128;
sub.u32 %r5, 127, %thread;
mov.u32 %r3, data;
mad.lo.u32 %r5, %r5, 4, %r3;
ld.shared.b32 %r1, [%r5];
JOIN:
setp.lt.u32 %q1, %thread, 40;
barrier.cta.red.popc.u32 %r6, 2, 128, %q1;
barrier.cta.red.and.pred %q2, 3, 128, %q1;
barrier.cta.red.or.pred %q3, 2, 128, %q1;
selp.u32 %r7, 1, 0, %q2;
selp.u32 %r8, 1, 0, %q3;
mad.wide.u32 %out, %thread, 16, %out;
st.global.v4.b32 [%out], {%r1, %r6, %r7, %r8};"""
    out = Buffer("out", np.zeros((128, 4), np.uint32), kept=True)
    text = entry(["out"], body, ".shared .align 8 .b32 data[64];")
    return Probe("barrier_named", "9.7.13.1 barrier", text, (out,))


def probes() -> list[Probe]:
    return [steps_probe(), lanes_probe(), named_probe()]
