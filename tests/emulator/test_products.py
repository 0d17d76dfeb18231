"""Registers of a wgmma are left alone until its wait, and behind a fence before it. PTX ISA 9.7.15.3, 9.7.15.7."""

import numpy as np
import pytest

from tests.emulator.test_warpgroup import MULTIPLY, WAIT, run

ISSUE = MULTIPLY.replace("wgmma.fence.sync.aligned;", "")
FENCE = "wgmma.fence.sync.aligned;"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
READ = "add.f32 %r15, %r10, %r11;"
FRAGMENT = "mov.b32 %r24, 0; mov.b32 %r25, 0; mov.b32 %r26, 0; mov.b32 %r27, 0;"
FROM_REGISTERS = MULTIPLY.replace("%rd5, %rd6, 0, 1, 1, 0, 0", "{%r24, %r25, %r26, %r27}, %rd6, 0, 1, 1, 0")
SEEDS = pytest.mark.parametrize("seed", [None, 0, 1])


def told(body: str, seed: int | None = None) -> list[tuple[str, str, str]]:
    """(kind, instruction, the other) of each fault."""
    report = run(body, np.zeros((128, 4), np.float32), seed=seed)
    return [(one.kind, one.text.split()[0], one.other.text.split()[0] if one.other else "") for one in report.faults]


@SEEDS
def test_an_accumulator_is_read_after_the_wait(seed):
    assert told(MULTIPLY + READ + WAIT, seed) == [("missing-wait-group", "add.f32", PRODUCT)]
    assert told(MULTIPLY + WAIT + READ, seed) == []


def test_the_wait_may_be_blocks_away():
    far = "setp.ne.b32 %p3, %r0, 4096; @!%p3 bra PAST; add.f32 %r15, %r10, %r11; PAST:"
    assert [kind for kind, *_ in told(MULTIPLY + far + WAIT)] == ["missing-wait-group"]
    assert told(MULTIPLY + WAIT + far) == []


def test_a_wait_for_all_but_one_lets_the_older_be_read():
    other = MULTIPLY.replace("%r10, %r11, %r12, %r13", "%r28, %r29, %r30, %r31")
    one = "wgmma.wait_group.sync.aligned 1;"
    zero = "mov.b32 %r28, 0; mov.b32 %r29, 0; mov.b32 %r30, 0; mov.b32 %r31, 0;"
    assert told(zero + MULTIPLY + other + one + READ + WAIT) == []
    assert [kind for kind, *_ in told(zero + other + MULTIPLY + one + READ + WAIT)] == ["missing-wait-group"]


def test_an_accumulator_is_not_written_before_the_wait():
    assert [kind for kind, *_ in told(MULTIPLY + "add.u32 %r10, %r0, %r0;" + WAIT)][-1] == "missing-wait-group"
    assert [kind for kind, *_ in told(MULTIPLY + "mov.b32 %r10, 0;" + WAIT)] == ["missing-wait-group"]


def test_a_copy_is_no_access_but_what_reads_the_copy_is():
    copy = "mov.b32 %r16, %r10;"
    assert told(MULTIPLY + copy + WAIT) == []
    assert [text for _, text, _ in told(MULTIPLY + copy + "add.f32 %r15, %r16, %r16;" + WAIT)] == ["add.f32"]
    far = "setp.ne.b32 %p3, %r0, 4096; @!%p3 bra PAST; add.f32 %r15, %r16, %r16; PAST:"
    assert [text for _, text, _ in told(MULTIPLY + copy + far + WAIT)] == ["add.f32"]


def test_a_fragment_of_a_may_be_read_but_not_written_before_the_wait():
    change = "add.u32 %r24, %r0, %r0;"
    assert told(FRAGMENT + FROM_REGISTERS + "add.u32 %r15, %r24, %r24;" + WAIT) == []
    assert [text for _, text, _ in told(FRAGMENT + FROM_REGISTERS + change + WAIT)] == ["add.u32"]
    assert told(FRAGMENT + FROM_REGISTERS + WAIT + change) == []


def test_a_fence_lies_between_other_accesses_and_the_product():
    change = "add.f32 %r10, %r10, %r11;"
    assert told(MULTIPLY + WAIT + change + ISSUE + WAIT) == [("missing-wgmma-fence", PRODUCT, "add.f32")]
    assert told(MULTIPLY + WAIT + READ + ISSUE + WAIT) == [("missing-wgmma-fence", PRODUCT, "add.f32")]
    assert told(MULTIPLY + WAIT + change + FENCE + ISSUE + WAIT) == []
    assert told(MULTIPLY + ISSUE + WAIT) == []
    assert told(ISSUE + WAIT)[0][:2] == ("missing-wgmma-fence", PRODUCT)


def test_the_fence_may_be_missing_blocks_away():
    change = "add.f32 %r10, %r10, %r11; setp.ne.b32 %p3, %r0, 4096; @!%p3 bra PAST; PAST:"
    assert [kind for kind, *_ in told(MULTIPLY + WAIT + change + ISSUE + WAIT)] == ["missing-wgmma-fence"]
    assert told(MULTIPLY + WAIT + change + FENCE + ISSUE + WAIT) == []


@SEEDS
def test_shared_memory_is_kept_until_the_wait(seed):
    # Each warp overwrites its own 16 rows of A.
    change = "and.b32 %r7, %r0, 31; shl.b32 %r7, %r7, 4; shl.b32 %r8, %r2, 11; add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r1;"
    change += "st.shared.b32 [%r7], %r0;"
    assert {kind for kind, *_ in told(MULTIPLY + change + WAIT, seed)} == {"missing-wait-group"}
    assert told(MULTIPLY + WAIT + change, seed) == []


def test_shared_memory_is_handed_over_after_the_wait():
    hand_over = "bar.sync 1, 128; add.s32 %r7, %r4, 8192; @%p1 st.shared.v4.b32 [%r7], {%r0, %r0, %r0, %r0};"
    assert {kind for kind, *_ in told(MULTIPLY + hand_over + WAIT)} == {"missing-wait-group"}
    assert told(MULTIPLY + WAIT + hand_over) == []
