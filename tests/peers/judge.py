"""What a peer's results and reports may be."""

from collections.abc import Collection
from dataclasses import dataclass

from tests.peers import run
from tests.peers.cases import Case
from tests.peers.float64 import Results, attention, distance, draw
from tests.peers.seeded import Seeded

# Relative error of one rounding to bf16, root mean square over mantissas whose logarithms are uniform:
# 2^-8 / sqrt(3) * sqrt(3 / (8 ln 2)).
ROUNDING = 1.66e-3
# Independent roundings add in squares: of probabilities and of the result; of score gradients, of out where the row's sum of
# dout * out is taken from it, and of the result. A tenth is left for chance. A sink's gradient is a number or two, rounded by up
# to 2^-8.
ROUNDINGS = {"out": 2, "v": 2, "q": 3, "k": 3}
MOST = {name: 1.1 * ROUNDING * count**0.5 for name, count in ROUNDINGS.items()} | {"sink": 2**-8 + ROUNDING}
LSE = 1e-4  # the exponential that flash-attn-4 emulates is right to 8.8e-5

# Reports that are true of flash-attn-4, by kernel; docs/emulator.md says why of each.
TRUE_OF = {
    "bwd_preprocess": {"race-global", "uninitialised-register"},
    "bwd_sm100": {"missing-wait-group", "exited-cta"},
}


@dataclass(frozen=True)
class Outcome:
    """errors: relative to float64, by name; lse: greatest absolute error. reports: (kernel, kind) of each fault."""

    errors: dict[str, float]
    lse: float
    reports: frozenset[tuple[str, str]]
    differing: tuple[str, ...]

    @property
    def unexplained(self) -> set[tuple[str, str]]:
        """Reports that are not known to be true of the peer."""
        return {(kernel, kind) for kernel, kind in self.reports if not any(kind in known(kernel, part) for part in TRUE_OF)}


def known(kernel: str, part: str) -> set[str]:
    """Reports of a kernel whose name has this part."""
    return TRUE_OF[part] if part in kernel else set()


def outcome(case: Case, seeds: int, backward: bool, architecture: str = "sm_100") -> Outcome:
    """Run a case in program order and with seeds."""
    drawn = draw(case)
    right, seeded = attention(case, drawn), Seeded(range(seeds))
    found = run.attention(case, drawn, seeded, backward, architecture)
    errors = {"out": distance(found.out, right.out)}
    errors |= {name: distance(grad, right.grads[name]) for name, grad in found.grads.items()}
    reports = {(report.launches[-1].kernel, fault.kind) for report in seeded.reports for fault in report.faults}
    return Outcome(errors, lse_error(found, right), frozenset(reports), tuple(seeded.differing))


def lse_error(found: Results, right: Results) -> float:
    """-inf, of rows that see nothing, must be -inf."""
    both = found.lse.double().isneginf() & right.lse.isneginf()
    return float((found.lse.double() - right.lse).masked_fill(both, 0).abs().max())


def assert_right(found: Outcome, explained: Collection[str] = ()) -> None:
    """All of it. explained: reports that are true of this case, whose kernel has the name of others."""
    assert {(kernel, kind) for kernel, kind in found.unexplained if kind not in explained} == set()
    assert not found.differing
    assert found.lse <= LSE
    assert {name: error for name, error in found.errors.items() if not error <= MOST[name]} == {}
