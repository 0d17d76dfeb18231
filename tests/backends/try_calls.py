"""Run random calls in the emulator, forward and backward, and hold them against the float64 oracle.

python -m tests.backends.try_calls --seed 0 --count 100             # a line a trial; what fails is shown whole
python -m tests.backends.try_calls --seed 0 --only 17               # one of them again
"""

import argparse
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
from attnspec.runtime.compare import judge
from attnspec.runtime.draw_inputs import Inputs
from attnspec.runtime.emulation import emulation

import attnspec
from attnspec import stages
from attnspec.errors import TargetError
from tests.backends.lay_out_calls import inputs_of
from tests.backends.random_calls import RandomCall, Trial, trials

CHOICES = "attnspec.lowering.schedule.make_choices"
Results = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Outcome:
    """wrong: calls with what is wrong about them, in words; refused: a target's reason not to run the variant, no fault."""

    trial: Trial
    seconds: float
    wrong: tuple[tuple[RandomCall, str], ...] = ()
    refused: str = ""

    @property
    def line(self) -> str:
        """In a line."""
        told = "; ".join(why.strip().splitlines()[-1] for _, why in self.wrong) or (self.refused and f"refused: {self.refused}")
        return f"{self.trial.number:4d} {self.seconds:6.1f} s  {self.trial.choices['build']}: {told or 'right'}"


def attempt(trial: Trial, on_reference: bool = False) -> Outcome:
    """Build, run every call twice, compare."""
    start = time.perf_counter()
    options = trial.options | {"target": trial.target, "on": "emulator"}
    if on_reference:
        options = {"target": "reference"}
    share, degree = options.pop("share", None), options.pop("degree", None)
    wrong = []
    with chosen(share, degree):
        attention = attnspec.build(trial.text, **options)
        for call in trial.calls:
            try:
                wrong += [(call, one) for one in faults_of(trial, call, attention)]
            except TargetError as error:
                return Outcome(trial, time.perf_counter() - start, refused=str(error))
            except Exception:
                wrong.append((call, traceback.format_exc()))
    return Outcome(trial, time.perf_counter() - start, tuple(wrong))


def faults_of(trial: Trial, call: RandomCall, attention: attnspec.Attention) -> Iterator[str]:
    """What is wrong with a call's results: beyond a tolerance, or other bits at another timing and number of processors."""
    inputs = inputs_of(call, attention.spec)
    runs = [run(trial, attention, inputs, *how) for how in zip(call.timings, call.choices["processors"], strict=True)]
    first, second = runs
    free = set() if trial.choices["deterministic"] else {"q", *attention.learned}  # sums by atomics, whose order is free
    if attention.splits is None:
        free = set(first)  # as many parts as keep the processors at work
    yield from (f"{name}: other bits" for name in first if name not in free and not same(first[name], second[name]))
    rows = judge(attention, inputs, runs, False)
    yield from (f"{row.name}: off by {row.error:.3g}, {row.worst:.3g} of {row.allowed:.3g}" for row in rows if not row.is_right)


@contextmanager
def chosen(share: float | None, degree: int | None) -> Iterator[None]:
    """With a share of exponentials emulated, by a polynomial of some degree, in kernels made inside this."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(stages._kernels, clear=True))
        if share is not None:
            stack.enter_context(patch(f"{CHOICES}.choose_share", lambda *_: share))
        if degree is not None:
            stack.enter_context(patch(f"{CHOICES}.DEGREE", degree))
        yield


def run(trial: Trial, attention: attnspec.Attention, inputs: Inputs, seed: int | None, processors: int) -> Results:
    """Results by the oracle's names, with a timing, on a GPU of so many multiprocessors."""
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | {name: inputs.tensors[name] for name in attention.learned}
    leaves = {name: array.detach().requires_grad_() for name, array in leaves.items()}
    given: dict[str, Any] = inputs.tensors | {name: leaves[name] for name in attention.learned} | inputs.keywords
    q, k, v = (leaves[name] for name in ("q", "k", "v"))
    with emulation(seed), patch("attnspec.runtime.emulated_program.CTAS", processors):
        out, lse = attention(q, k, v, return_lse=True, deterministic=trial.choices["deterministic"], **given)
        found = torch.autograd.grad((out, lse), list(leaves.values()), (inputs.dout, inputs.dlse))
    return {"out": out.detach(), "lse": lse.detach(), **dict(zip(leaves, found, strict=True))}


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To the bit, a NaN being like any other."""
    return torch.equal(torch.nan_to_num(one, nan=777.0), torch.nan_to_num(other, nan=777.0))


def main() -> int:
    """Try some; 1 if any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the row of trials")
    parser.add_argument("--count", type=int, default=20, help="trials of the row")
    parser.add_argument("--only", type=int, help="the number of one trial of the row")
    parser.add_argument("--reference", action="store_true", help="the reference instead of the emulator")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = trials(given.seed)
    row = (one for one in found if one.number == given.only) if given.only is not None else found
    failed = 0
    for trial in islice(row, 1 if given.only is not None else given.count):
        outcome = attempt(trial, given.reference)
        print(outcome.line, flush=True)
        if outcome.wrong:
            failed += 1
            calls = tuple({id(call): call for call, _ in outcome.wrong}.values())
            print(trial.show(calls), *(why for _, why in outcome.wrong), sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
