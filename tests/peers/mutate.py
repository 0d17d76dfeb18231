"""`python -m tests.peers.mutate [PATTERN]`: drop one synchronisation of flash-attn-4's forward at a time, and see who notices.

One CTA, on sm_100a, D 64: several work tiles, odd numbers of key tiles, ragged ends; a causal kernel, some of whose queries
see no key; and a causal kernel of sm_90a. Checks of what published kernels do without are off.
"""

import sys
from typing import Any

from attnspec.emulator.launch import CHECKS
from attnspec.emulator.report import Report

from tests.emulator.mutate import Call, Subject, tell
from tests.peers import run
from tests.peers.cases import Case
from tests.peers.float64 import draw

# Rows of keys that are longer than the ring of ten slots; scores that vary, so that accumulators are rescaled.
DENSE = (
    Case("300 x 1000", ((300, 1000),), dims=(64, 64), heads=(2, 1), processors=1, spread=8),
    Case("600 x 200", ((600, 200),), dims=(64, 64), heads=(2, 1), processors=1),
)
CAUSAL = (Case("600 x 417, causal", ((600, 417),), dims=(64, 64), heads=(2, 1), causal=True, processors=1, spread=8),)
HOPPER = (Case("300 x 417, causal, sm_90a", ((300, 417),), dims=(64, 64), causal=True, processors=1, spread=8),)
SUBJECTS = ((DENSE, "sm_100"), (CAUSAL, "sm_100"), (HOPPER, "sm_90"))


def subject_of(cases: tuple[Case, ...], architecture: str = "sm_100") -> Subject:
    """Calls of one compiled function."""
    compiled: list[Any] = []
    calls: list[Call] = []

    def keep(function: Any, *arguments: Any) -> Report:
        compiled.append(function)
        calls.append(Call(arguments, CHECKS))
        return Report((), (), 0, None)

    for case in cases:
        run.attention(case, draw(case), keep, False, architecture)
    if any(one is not compiled[0] for one in compiled):
        raise ValueError(f"{len(compiled)} functions were compiled for {', '.join(map(str, cases))}")
    return Subject(compiled[0], tuple(calls))


if __name__ == "__main__":
    for subject in SUBJECTS:
        tell(subject_of(*subject), *sys.argv[1:])
