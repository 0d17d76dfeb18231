"""What lanes of one warp do to each other: copies that each waits for itself, and races between instructions."""

import numpy as np

from tests.emulator.snippet import run
from tests.emulator.test_hazards import SEEDS, SHARED, START, kinds

COPY = """
    mul.wide.u32 %rd5, %r0, 4;
    add.s64 %rd6, %rd0, %rd5;
    setp.lt.u32 %p4, %r0, 16;
    cp.async.ca.shared.global [%r4], [%rd6], 4;
"""
COMMIT, WAIT_COPIES = "cp.async.commit_group;", "cp.async.wait_group 0;"


@SEEDS
def test_a_lane_waits_for_its_own_copies_only(seed):
    data = np.arange(32, dtype=np.uint32)
    half = "@!%p4 bra PAST; STEPS PAST:"
    read = "bar.warp.sync -1; ld.shared.b32 %r9, [%r4];"
    assert kinds(COPY + COMMIT + WAIT_COPIES + read, data, seed=seed) == set()
    assert kinds(COPY + COMMIT + half.replace("STEPS", WAIT_COPIES) + read, data, seed=seed) == {"missing-wait-group"}
    assert kinds(COPY + half.replace("STEPS", COMMIT) + WAIT_COPIES + read, data, seed=seed) == {"missing-wait-group"}
    assert kinds(COPY + half.replace("STEPS", COMMIT) + "cp.async.wait_all;" + read, data, seed=seed) == set()


def test_groups_are_counted_lane_by_lane():
    # Half the lanes commit another, empty group: for them all but one is what was copied, for the others it is nothing.
    data = np.arange(32, dtype=np.uint32)
    other = "@!%p4 bra PAST; cp.async.commit_group; PAST: cp.async.wait_group 1;"
    read = "@!%p4 bra END; ld.shared.b32 %r9, [%r4]; END:"
    body = COPY.split("cp.async")[0] + "@!%p4 bra NONE; cp.async.ca.shared.global [%r4], [%rd6], 4;" + COMMIT + "NONE:"
    assert kinds(body + other + read, data) == set()
    assert kinds(body + other.replace("@!%p4", "@%p4") + read, data) == {"missing-wait-group"}


@SEEDS
def test_lanes_meet_between_a_write_and_another_lanes_read(seed):
    other = "st.shared.b32 [%r4], %r0; SYNC xor.b32 %r5, %r4, 4; ld.shared.b32 %r9, [%r5];"
    own = "st.shared.b32 [%r4], %r0; ld.shared.b32 %r9, [%r4]; st.shared.b32 [%r4], %r9;"
    shuffle = "shfl.sync.bfly.b32 %r9, %r0, 1, 31, -1;"
    assert kinds(own, seed=seed) == set()
    assert kinds(other.replace("SYNC", ""), seed=seed) == {"race-lanes"}
    assert kinds(other.replace("SYNC", "bar.warp.sync -1;"), seed=seed) == set()
    assert kinds(other.replace("SYNC", "bar.sync 0;"), seed=seed) == set()
    assert kinds(other.replace("SYNC", shuffle), seed=seed) == set()
    assert kinds(other.replace("SYNC", shuffle), seed=seed, checks={"warp-sync", "hazards"}) == {"race-lanes"}


def test_lanes_meet_between_a_read_and_another_lanes_write():
    body = "st.shared.b32 [%r4], %r0; bar.warp.sync -1; xor.b32 %r5, %r4, 4; ld.shared.b32 %r9, [%r5];"
    body += "SYNC st.shared.b32 [%r4], %r9;"
    assert kinds(body.replace("SYNC", "")) == {"race-lanes"}
    assert kinds(body.replace("SYNC", "bar.warp.sync -1;")) == set()


def test_a_guard_says_which_lanes_touch_a_word():
    body = "@%p1 st.shared.b32 [%r1+256], %r1; SYNC ld.shared.b32 %r9, [%r1+256];"
    assert kinds(body.replace("SYNC", "")) == {"race-lanes"}
    assert kinds(body.replace("SYNC", "bar.warp.sync -1;")) == set()
    assert kinds(body.replace("SYNC", "@!%p1 bra END;") + "END:") == set()


def test_the_sides_of_a_branch_are_not_ordered():
    body = "setp.lt.u32 %p4, %r0, 16; @%p4 bra A; ld.shared.b32 %r9, [%r1]; bra END; A: @%p1 st.shared.b32 [%r1], %r1; END:"
    (found,) = run(START + body, **SHARED).faults
    assert found.kind == "race-lanes"
    assert "lane 16 of warp 0 of CTA 0 reads shared memory +0 of CTA 0, written by lane 0: bar.warp.sync" in found.message
    assert found.other is not None and found.other.text.startswith("@%p1 st.shared")


def test_matrices_are_all_lanes_deed():
    body = "mul.lo.u32 %r5, %r0, 16; and.b32 %r5, %r5, 127; add.u32 %r5, %r5, %r1;"
    body += "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r0}; SYNC ld.shared.b32 %r9, [%r4];"
    assert kinds(body.replace("SYNC", "")) == {"race-lanes"}
    assert kinds(body.replace("SYNC", "bar.warp.sync -1;")) == set()
