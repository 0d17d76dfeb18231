"""Warp-wide instructions: one warp, each operation run by the lanes of a mask, the other lanes elsewhere."""

import numpy as np

from tests.emulator.silicon.operands import words
from tests.emulator.silicon.probe import Buffer, Probe, entry

MASKS = (0xFFFFFFFF, 0x0000FFFF, 0xA5A5A5A5, 0x80000000, 0x00FF1230)


def masked(name: str, section: str, operations: dict[str, str], values: np.ndarray) -> Probe:
    """Results `out[operation, mask, lane, 2]`, 0xEEEEEEEE where a lane took no part.

    An operation computes $o and $s from this lane's $v (and $f, a float of it) under the member mask $m.
    """
    lines = [".reg .b32 %v, %f, %o, %s, %m;", "mad.wide.u32 %in, %lane, 4, %in;", "ld.global.b32 %v, [%in];"]
    lines.append("mad.wide.u32 %out, %lane, 8, %out;")
    row = 0
    for text in operations.values():
        for mask in MASKS:
            body = text
            for letter in "vosm":
                body = body.replace(f"${letter}", f"%{letter}")
            lines.append(f"""mov.b32 %o, 0xEEEEEEEE;
mov.b32 %s, 0xEEEEEEEE;
mov.b32 %m, {mask};
shr.u32 %r0, %m, %lane;
and.b32 %r0, %r0, 1;
setp.eq.u32 %q7, %r0, 0;
@%q7 bra SKIP{row};
{body}
SKIP{row}:
bar.warp.sync 0xffffffff;
st.global.v2.b32 [%out+{row * 256}], {{%o, %s}};""")
            row += 1
    out = Buffer("out", np.zeros((len(operations), len(MASKS), 32, 2), np.uint32), kept=True)
    return Probe(name, section, entry(["in", "out"], "\n".join(lines)), (Buffer("in", values), out), block=32)


def shuffles() -> Probe:
    """Source operands and clamps of each mode; $s is the predicate 'the source lane was in range'."""
    operations = {}
    for mode in ("up", "down", "bfly", "idx"):
        for distance in ("1", "5", "16", "31", "33", "%lane"):
            for clamp in (0, 0x1F, 0x101F, 0x181F, 0x1C03, 0x0807):
                operations[f"{mode} {distance} {clamp:x}"] = (
                    f"shfl.sync.{mode}.b32 $o|%q0, $v, {distance}, {clamp}, $m;\nselp.u32 $s, 1, 0, %q0;"
                )
    return masked("shuffles", "9.7.9.6 shfl.sync", operations, words(71, 32))


def votes() -> Probe:
    operations = {}
    for test in ("setp.lt.u32 %q1, $v, 0x80000000;", "setp.ge.u32 %q1, $v, 0;", "setp.eq.u32 %q1, %lane, 31;"):
        for mode in ("all", "any", "uni"):
            operations[f"{mode} {test}"] = f"{test}\nvote.sync.{mode}.pred %q0, %q1, $m;\nselp.u32 $o, 1, 0, %q0;"
        operations["ballot " + test] = f"{test}\nvote.sync.ballot.b32 $o, %q1, $m;"
    operations["match.any"] = "and.b32 %r1, $v, 3;\nmatch.any.sync.b32 $o, %r1, $m;"
    operations["match.all"] = "and.b32 %r1, $v, 3;\nmatch.all.sync.b32 $o|%q0, %r1, $m;\nselp.u32 $s, 1, 0, %q0;"
    operations["match.all same"] = "mov.b32 %r1, 3;\nmatch.all.sync.b32 $o|%q0, %r1, $m;\nselp.u32 $s, 1, 0, %q0;"
    for name in ("add.u32", "min.u32", "max.u32", "add.s32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32"):
        operations["redux " + name] = f"redux.sync.{name} $o, $v, $m;"
    operations["elect"] = "elect.sync $o|%q0, $m;\nselp.u32 $s, 1, 0, %q0;"
    operations["activemask"] = "activemask.b32 $o;"
    return masked("votes", "9.7.13 vote, match, redux, elect", operations, words(72, 32))


def probes() -> list[Probe]:
    return [shuffles(), votes()]
