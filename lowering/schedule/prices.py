"""Cycles of a step, by operation and by unit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

HAND_OFF = 92.0  # arrival of warps on an mbarrier to the end of a wait (measured on a B200, by others)

# issue: slots of the four warp schedulers, which all roles share.
UNITS = ("tensor", "mufu", "fma", "alu", "shared", "tensor_memory", "issue")


@dataclass(frozen=True)
class Price:
    """Cycles of one run. hold: the role cannot go on (tensor operations: the pipe). latency: until others may see the result.

    units: busy cycles by unit, in the order of UNITS.
    """

    hold: float
    latency: float
    units: tuple[float, ...] = (0.0,) * len(UNITS)


@dataclass(frozen=True)
class Prices:
    """The price of every operation, by name: of those of a step, and of those that happen once a work tile.

    leaves_out: whether seldom waits are left out in such a step.
    """

    operations: tuple[tuple[str, Price], ...]
    hand_off: float = HAND_OFF
    of_tile: tuple[tuple[str, Price], ...] = ()
    leaves_out: bool = False

    def of(self, name: str) -> Price:
        """The price of one run of an operation; KeyError if it has none."""
        return self._by_name[name]

    def total(self, unit: str) -> float:
        """Busy cycles of a unit a KV step, all query tiles together."""
        return sum(price.units[UNITS.index(unit)] for _, price in self.operations)

    @property
    def bottleneck(self) -> str:
        """The unit with most busy cycles."""
        return max(UNITS, key=self.total)

    @cached_property
    def _by_name(self) -> Mapping[str, Price]:
        return dict((*self.of_tile, *self.operations))
