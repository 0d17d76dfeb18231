"""Clusters in processes of their own: the same results, counts and faults, races between them too."""

import os
from typing import Any

import numpy as np
import pytest
from attnspec.emulator import workers
from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.report import Report

from tests.emulator.snippet import run

SMEM = ".extern .shared .align 1024 .b8 smem[];"
PLACE = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
"""
OWN_WORDS = (
    PLACE
    + """
    mad.lo.u32 %r2, %r1, 32, %r0;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd0, %rd2;
    add.u64 %rd4, %rd1, %rd2;
    ld.global.b32 %r3, [%rd3];
    add.u32 %r3, %r3, %r1;
    st.global.b32 [%rd4], %r3;
"""
)
ONE_WORD = PLACE + "setp.ne.u32 %p1, %r0, 0; @%p1 bra END; st.global.b32 [%rd0], %r1; END:"
READ_AND_WRITE = (
    PLACE
    + """
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra END;
    setp.ne.u32 %p2, %r1, 5;
    @%p2 bra READ;
    st.global.b32 [%rd0], %r1;
    bra END;
READ:
    ld.global.b32 %r2, [%rd0];
END:"""
)


def never(*_: Any) -> Any:
    raise AssertionError("a process was forked")


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 6, 9])
def test_results_and_counts_do_not_depend_on_the_number_of_processes(count: int, seed: int | None) -> None:
    given, out = np.arange(6 * 32, dtype=np.uint32), np.zeros(6 * 32, np.uint32)
    report = run(OWN_WORDS, given, out, grid=(6,), workers=count, seed=seed).check()
    assert (out == given + np.arange(6).repeat(32)).all()
    assert report.launches[0].counts == run(OWN_WORDS, given, out, grid=(6,), workers=1).launches[0].counts
    assert report.launches[0].lines == run(OWN_WORDS, given, out, grid=(6,), workers=1).launches[0].lines


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("body", [ONE_WORD, READ_AND_WRITE])
def test_a_race_between_ctas_is_told_wherever_they_run(body: str, count: int) -> None:
    faults = run(body, np.zeros(1, np.uint32), grid=(6,), workers=count).faults
    assert {fault.kind for fault in faults} == {"race-global"}
    assert all(fault.text.split(".")[0] in ("ld", "st") and fault.other is not None and fault.other.line for fault in faults)


def test_reads_of_one_place_by_all_are_no_race() -> None:
    body = PLACE + "ld.global.b32 %r2, [%rd0];"
    assert run(body, np.zeros(1, np.uint32), grid=(6,), workers=3).ok


def test_no_race_is_told_where_hazards_are_off() -> None:
    assert run(ONE_WORD, np.zeros(1, np.uint32), grid=(6,), workers=2, checks="none").ok


@pytest.mark.parametrize(
    "order",
    [
        "atom.global.add.u32 %r3, [%rd0], 1;",
        "red.global.add.u32 [%rd0], 1;",
        "ld.acquire.gpu.global.b32 %r3, [%rd0];",
        "membar.gl;",
    ],
)
def test_clusters_that_memory_may_order_stay_together(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", never)
    out = np.zeros(1, np.uint32)
    run(PLACE + order, out, grid=(4,), workers=2).check()


def test_a_volatile_load_of_shared_memory_orders_no_clusters() -> None:
    assert not workers.orders("ld.volatile.shared.v2.b32")
    assert workers.orders("ld.volatile.global.b32") and workers.orders("st.release.gpu.b32")


def test_a_small_grid_is_not_worth_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", never)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    out = np.zeros(6 * 32, np.uint32)
    run(OWN_WORDS, out.copy(), out, grid=(6,)).check()
    assert (out == np.arange(6).repeat(32)).all()


@pytest.mark.parametrize("body", [ONE_WORD, READ_AND_WRITE])
def test_a_grid_that_is_worth_it_is_shared_out_behind_its_first_cluster(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTH", 0.0)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    out = np.zeros(6 * 32, np.uint32)
    run(OWN_WORDS, out.copy(), out, grid=(6,)).check()
    assert (out == np.arange(6).repeat(32)).all()
    assert {fault.kind for fault in run(body, np.zeros(1, np.uint32), grid=(6,)).faults} == {"race-global"}


def deadlocked(place: int) -> Report:
    """One CTA waits for a barrier that nobody else comes to."""
    body = PLACE + f"setp.ne.u32 %p1, %r1, {place}; @%p1 bra END; bar.sync 1, 96; END:"
    return run(body, threads=64, grid=(4,), workers=2)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_fault_of_another_process_is_told(place: int) -> None:
    (fault,) = deadlocked(place).faults
    assert fault.kind == "deadlock" and f"of CTA {place} wait for named barrier 1" in fault.message


def test_an_error_of_another_process_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise EmulatorError("this cannot be")

    monkeypatch.setattr(workers, "work", fail)
    with pytest.raises(EmulatorError, match="this cannot be"):
        run(OWN_WORDS, *2 * [np.zeros(6 * 32, np.uint32)], grid=(6,), workers=2)


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "work", lambda *_: os._exit(9))
    with pytest.raises(EmulatorError, match="ended before it was done"):
        run(OWN_WORDS, *2 * [np.zeros(6 * 32, np.uint32)], grid=(6,), workers=2)


def test_no_process_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    fork = os.fork

    def counted() -> int:
        made.append(fork())
        return made[-1]

    monkeypatch.setattr(os, "fork", counted)
    out = np.zeros(6 * 32, np.uint32)
    run(OWN_WORDS, out.copy(), out, grid=(6,), workers=3).check()
    assert len(made) == 2
    for process in made:
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)


def test_a_hazard_of_the_first_cluster_does_not_keep_the_others_from_running() -> None:
    out = np.zeros(6 * 32, np.uint32)
    lanes_race = "st.shared.b32 [smem], %r0;"
    report = run(OWN_WORDS + lanes_race, out.copy(), out, grid=(6,), declarations=SMEM, shared_bytes=16)
    assert {fault.kind for fault in report.faults} == {"race-lanes"}
    assert (out == np.arange(6).repeat(32)).all()
