"""attnc run --on emulator: timings, their bits, and what is said of faults."""

import re
from importlib import import_module
from typing import Any

import pytest
import torch
from attnspec.emulator.host import ptx_of
from attnspec.runtime import compare as comparing
from attnspec.runtime.emulation import chosen_seed

from attnspec.cli import progress
from tests.cli.command import GOOD, Attnc
from tests.emulator.mutants import mutants

CALL = ("--on", "emulator", "--forward-only", "--shape", "b=1,h=1,hkv=1,q=130,kv=140")
launching = import_module("attnspec.emulator.launch")  # the package has a function of that name


def launch_without(kind: str) -> Any:
    """The emulator's launch, of a kernel that lacks its first synchronisation of a kind."""
    launch = launching.launch

    def broken(compiled: Any, *arguments: Any, **options: Any) -> Any:
        mutant = next(one for one in mutants(ptx_of(compiled)) if one.kind == kind)
        return launch(compiled, *arguments, **options, ptx=mutant.ptx)

    return broken


def test_seeds_are_timings_of_one_draw_that_give_the_same_bits(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    done = attnc("run", name, *CALL, "--seeds", "2")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^program order +1 +[\d,]+ +[\d.]+ +none$", done.out, re.M)
    assert re.search(r"^seeds 1 to 2 +2 +[\d,]+ +[\d.]+ +as in program order +none$", done.out, re.M)
    assert done.out.splitlines()[-1] == "pass: forward agrees with the float64 oracle"
    (run,) = attnc("run", name, *CALL, "--seed", "3", "--seeds", "1", "--json").json["runs"]
    assert (run["seed"], [one["seed"] for one in run["timings"]]) == (3, [None, 1])
    assert [(one["other_bits"], one["faults"]) for one in run["timings"]] == [(None, []), ([], [])]


def test_faults_are_printed_once_as_reports_with_the_runs_that_found_them(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "launch", launch_without("arrive dropped"))
    done = attnc("run", attnc.write(GOOD), *CALL, "--seeds", "1")
    assert done.code == 1
    assert re.search(r"^program order +1 .* deadlock$", done.out, re.M)
    assert re.search(r"^seed 1 +1 .* deadlock$", done.out, re.M)
    assert "program order:\nfault[deadlock]: all " in done.out
    assert re.search(r"^  mma \(warp 12 of CTA 0\) waits for `", done.out, re.M)
    assert done.out.splitlines()[-1] == "FAIL: the emulator found faults in 2 of 2 runs"
    found = attnc("run", "small.attn", *CALL, "--json").json
    assert (found["pass"], found["runs"][0]["results"]) == (False, [])
    (fault,) = found["runs"][0]["timings"][0]["faults"]
    assert fault["kind"] == "deadlock" and fault["report"].startswith("fault[deadlock]: ")


def fake_results(change: float, name: str = "out") -> Any:
    """Results of which one depends on the seed of the timing."""

    def run(attention: Any, inputs: Any, forward_only: bool) -> dict[str, torch.Tensor]:
        shape = (*inputs.q.shape[:-1], inputs.v.shape[-1])
        return {name: torch.full(shape, change * (chosen_seed(None) == 2), dtype=inputs.q.dtype)}

    return run


def test_gradients_that_are_summed_in_any_order_are_held_against_the_oracle_alone(
    attnc: Attnc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "run", fake_results(0.5, "q"))
    judged: list[int] = []

    def judge(_: Any, __: Any, runs: Any, ___: bool) -> tuple[comparing.Row, ...]:
        judged.append(len(runs))
        return (comparing.Row("dq", 0.0, 1.0, 0.0, "so"),)

    monkeypatch.setattr(comparing, "judge", judge)
    done = attnc("run", attnc.write(GOOD), *CALL, "--seeds", "3")
    assert (done.code, judged) == (0, [2])
    assert re.search(r"^seed 2 +1 +0 .* but for dq \(sums in any order\) +none$", done.out, re.M)


def test_a_timing_that_gives_other_bits_is_wrong(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "run", fake_results(1.0))
    monkeypatch.setattr(comparing, "judge", lambda *_: (comparing.Row("out", 0.0, 1.0, 0.0, "so"),))
    done = attnc("run", attnc.write(GOOD), *CALL, "--seeds", "3")
    assert done.code == 1
    assert re.search(r"^seeds 1, 3 +2 +0 .* as in program order +none$", done.out, re.M)
    assert re.search(r"^seed 2 +1 +0 .* OTHERS: out +none$", done.out, re.M)
    assert done.out.splitlines()[-1] == "FAIL: 1 of 3 timings give other bits than program order"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_on_a_terminal_alone(attnc: Attnc, monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    monkeypatch.setattr(comparing, "run", fake_results(0.0))
    monkeypatch.setattr(comparing, "judge", lambda *_: (comparing.Row("out", 0.0, 1.0, 0.0, "so"),))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: is_terminal)
    done = attnc("run", attnc.write(GOOD), *CALL, "--seeds", "3")
    assert done.code == 0
    assert ("\rseed 3 of 3, 0 s" in done.err) == is_terminal
    assert done.err == "" or done.err.endswith("\r")
