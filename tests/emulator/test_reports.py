"""What a report says: golden texts of small programs, and the words of reports of our own kernel."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import torch
from attnspec.emulator.host import ptx_of
from attnspec.emulator.launch import launch
from attnspec.emulator.names import Names, Part, Signal
from attnspec.emulator.report import Fault, Report
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.call import Call
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments

import attnspec
from attnspec import stages
from tests.emulator.mutants import Mutant, mutants
from tests.emulator.snippet import run
from tests.golden_text import check_golden

SMEM = ".extern .shared .align 1024 .b8 smem[];"
NAMES = Names(
    roles={0: "load", 1: "softmax", 2: "mma"},
    shared=(Part("tile, slot 0", 1024, 2048), Part("tile, slot 1", 2048, 3072), Part("barriers", 3072, 3088)),
    barriers={
        3072: Signal("`tile full`, slot 0", "load (bytes of its TMA loads)", "load", 0, 2, ("step {}",)),
        3080: Signal("`row full`", "softmax (its threads)", "softmax", 0, 1, ("step {}",)),
    },
    specs={("kernel.py", 7): "  --> causal.attn:2:8\n   |\n2  | mask = kv <= qpos\n   |        ^^^^^^^^^^"},
)
SET_UP = """
    mov.b32 %r1, smem;
    add.u32 %r2, %r1, 3072;
    add.u32 %r3, %r1, 3080;
    mov.u32 %r0, %tid.x;
    shr.u32 %r4, %r0, 5;
    setp.ne.b32 %p1, %r0, 0;
    @%p1 bra MADE;
    mbarrier.init.shared.b64 [%r2], 1;
    mbarrier.init.shared.b64 [%r3], 2;
    fence.mbarrier_init.release.cluster;
MADE:
    bar.sync 0;
    setp.eq.b32 %p2, %r4, 1;
    setp.eq.b32 %p3, %r4, 2;
    @%p2 bra SOFTMAX;
    @%p3 bra MMA;
"""


def report(body: str, *arrays: np.ndarray) -> Report:
    """Of three warps, `load`, `softmax` and `mma`."""
    options = {"threads": 96, "declarations": SMEM, "shared_bytes": 3088, "names": NAMES}
    return run(SET_UP + body + "END:", *arrays, **options)


def wait(register: str, parity: int, label: str) -> str:
    """Wait at an mbarrier."""
    try_wait = f"mbarrier.try_wait.parity.shared.b64 %p9, [{register}], {parity};"
    return f"{label}: {try_wait}\n@!%p9 bra {label};\n"


def test_a_deadlock_tells_who_waits_for_what_and_who_has_gone_past_it():
    body = f"""
        setp.ne.b32 %p4, %r0, 0;
        @%p4 bra END;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 48;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 32;
        bra END;
    SOFTMAX:
        {wait("%r2", 0, "FULL")}
        bra END;
    MMA:
        {wait("%r3", 0, "ROW")}
    """
    check_golden("report_deadlock.txt", f"{report(body)}\n")


def test_a_signal_that_never_comes_is_told_by_where_its_role_is():
    body = f"""
        bra END;
    SOFTMAX:
        {wait("%r2", 0, "FULL")}
        bra END;
    MMA:
        bra END;
    """
    assert "  = help: load has exited: its signal for `tile full`, slot 0, step 0 was lost" in str(report(body))
    at_barrier = body.replace("bra END;", "bar.sync 1, 64; bra END;", 1)
    told = "load (warp 0 of CTA 0) is at named barrier 1 of CTA 0 already: its signal for `tile full`, slot 0, step 0 was lost"
    assert told in str(report(at_barrier))


def test_a_race_tells_both_sides_the_buffer_and_the_place_in_the_spec():
    body = """
        bra END;
    SOFTMAX:
        .loc 1 7 4
        st.shared.b32 [%r1+2052], %r1;
        bra END;
    MMA:
        .loc 1 9 4
        ld.shared.b32 %r5, [%r1+2052];
    """
    check_golden("report_race.txt", f"{run_with_file(body)}\n")


def run_with_file(body: str) -> Report:
    options = {"threads": 96, "declarations": f'.file 1 "kernel.py"\n{SMEM}', "shared_bytes": 3088, "names": NAMES}
    return run(SET_UP + body + "END:", checks={"hazards"}, **options)


def test_bytes_that_do_not_come_are_told_at_the_exit():
    body = """
        setp.ne.b32 %p4, %r0, 0;
        @%p4 bra END;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 48;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 48;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 48;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 40;
        bra END;
    SOFTMAX:
        bra END;
    MMA:
    """
    check_golden("report_bytes.txt", f"{report(body)}\n")


def test_bytes_that_nobody_announced_are_told_by_the_phase_in_which_they_came():
    body = """
        setp.ne.b32 %p4, %r0, 0;
        @%p4 bra END;
        mbarrier.arrive.shared.b64 _, [%r2];
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 16;
        bra END;
    SOFTMAX:
        bra END;
    MMA:
    """
    (found,) = report(body).faults
    assert found.kind == "barrier-bytes"
    assert "16 bytes delivered and never announced, since phase 1, step 2; now phase 2" in found.message


def test_bytes_announced_of_which_none_come_are_no_fault_where_nobody_waits():
    body = """
        setp.ne.b32 %p4, %r0, 0;
        @%p4 bra END;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 48;
        bra END;
    SOFTMAX:
        bra END;
    MMA:
    """
    assert report(body).ok


def test_an_access_out_of_bounds_tells_the_lane_and_the_buffer():
    body = """
        mul.lo.u32 %r5, %r0, 700;
        add.u32 %r5, %r5, %r1;
        st.shared.b32 [%r5+2052], %r0;
        bra END;
    SOFTMAX:
        bra END;
    MMA:
    """
    check_golden("report_out_of_bounds.txt", f"{report(body)}\n")


@dataclass(frozen=True)
class Ours:
    """The forward kernel of a small variant, and one call of it."""

    attention: attnspec.Attention

    @cached_property
    def program(self) -> EmulatedProgram:
        program = stages.kernel(self.attention, "sm100").program
        assert isinstance(program, EmulatedProgram)
        return program

    @cached_property
    def text(self) -> str:
        return ptx_of(self.program.binary.compiled)

    def run(self, ptx: str | None) -> Report:
        """One head on one CTA, two work tiles, the second a ragged one."""
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(1, length, 1, 64, generator=generator).bfloat16() for length in (300, 417, 417))
        spec = self.attention.spec
        call = Call(q, k, v, (), check_call(spec, q, k, v, Placing()), False)
        out, lse = empty_results(call, spec.head_dim_v)
        arguments = (*forward_arguments(call, out, lse), 1)
        checks = {"hazards", "uninitialised", "wait-ld"}
        return launch(self.program.binary.compiled, *arguments, ptx=ptx, checks=checks, names=self.program.names)

    @cached_property
    def mutants(self) -> list[Mutant]:
        """Those of lines that the call runs."""
        lines = self.run(None).check().launches[0].lines
        return [mutant for mutant in mutants(self.text) if mutant.line in lines]

    def faults(self, kind: str, pattern: str = "") -> list[Fault]:
        """Of the last mutant of a kind whose first fault is told in words that match."""
        found = (self.run(mutant.ptx).faults for mutant in reversed(self.mutants) if mutant.kind == kind)
        return list(next(faults for faults in found if faults and re.search(pattern, str(faults[0]))))


@pytest.fixture(scope="module")
def ours() -> Ours:
    return Ours(attnspec.build("attention small\nhead_dim 64\nmask = kv <= qpos\n", on="emulator"))


def test_a_lost_signal_of_our_kernel_is_told_by_role_barrier_and_step(ours):
    who = r"  \w+ \(warps? [\d-]+ of CTA 0\) waits? for `[\w\[\]]+ full`(, slot \d)?, (step|work tile) \d+\n"
    by = r"    signalled by mma \(tcgen05.commit after mma_\w+(\[\d\])?.*\)\n"
    what = r"    mbarrier \+\d+, completion of the phase of parity [01]: phase \d+ \(parity [01]\), 1 of 1 arrivals pending, .*\n"
    where = r"    at PTX line \d+: mbarrier.try_wait.*\n    from backends/sm100/kernel/\w+/\w+.py:\d+\n"
    assert "= help: " in str(ours.faults("commit dropped", who + by + what + where)[0])


def test_a_race_of_our_kernel_is_told_by_role_and_buffer(ours):
    reads = (
        r"^fault\[race-shared\]: tcgen05.mma \S+ reads shared memory \+\d+ \((K/V ring, slot \d|q of query tile \d)\) of CTA 0"
    )
    text = str(ours.faults("bytes not announced", reads)[0])
    assert "issued by mma (warp 12 of CTA 0)" in text
    assert re.search(r"against TMA load of box \(0, \d+, 0, 0\), issued by load \(warp 13 of CTA 0\)", text)
    assert re.search(r"from backends/sm100/kernel/blocks/fetch.py:\d+", text)
    assert re.search(r"last full: (K/V ring, slot \d in [kv] of step|q of query tile \d in work tile) \d+", text)


def test_a_load_without_its_wait_is_told_by_role_and_by_the_line_of_the_use(ours):
    found = ours.faults("wait::ld dropped")[0]
    assert found.kind == "missing-wait-ld"
    assert found.other is not None and found.other.text.startswith("tcgen05.ld")
    assert found.warp.startswith(("softmax", "correction"))
    assert not found.text.startswith("tcgen05.ld")


def test_a_line_of_a_spec_has_its_place_in_the_names(ours):
    names = ours.program.names
    files = {file for file, _ in names.specs}
    assert files and all(file in ours.text for file in files)
    assert any("kv <= qpos" in text and "^" in text for text in names.specs.values())


def test_instructions_are_put_down_to_lines_that_say_more_than_a_wrapper_does(ours):
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ours.text, re.MULTILINE))
    wrappers = ("blocks/ptx.py", "kernel/pipes.py", "blocks/tensor_core.py", "blocks/fences.py")
    assert not [name for name in files.values() if name.endswith(wrappers)]
    told = {(files[file], int(line)) for file, line in re.findall(r"^\s*\.loc\s+(\d+)\s+(\d+)", ours.text, re.MULTILINE)}
    assert told & set(ours.program.names.specs)


def test_every_word_of_shared_memory_and_every_column_has_a_name(ours):
    names, schedule = ours.program.names, ours.program.schedule
    assert all(names.in_shared(byte) for byte in range(0, schedule.shared_bytes, 4))
    ends = max(part.end for part in names.tensor)
    assert any(names.in_tensor(column) for column in range(ends)) and ends <= schedule.tensor_columns


def test_the_names_of_barriers_are_those_of_the_kernel(ours):
    counts = {channel.ring: channel for channel in ours.program.schedule.channels}
    for signal in ours.program.names.barriers.values():
        ring, side = signal.name.split("`")[1].split()
        assert side in ("full", "empty") and counts[ring].depth == signal.depth
    assert len(ours.program.names.barriers) == ours.program.emitted.manifest["barriers"]
