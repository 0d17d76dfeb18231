"""What the hardware does not compute by IEEE rules, two ways: `fast`, and `faithful` to the bit where that is known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnspec.emulator.numerics import approximations, faithful, measured


@dataclass(frozen=True)
class Numerics:
    """multiply: how tensor cores sum; approximations: of ex2 and its like."""

    multiply: Callable[..., Any]
    approximations: approximations.Approximations


NUMERICS = {
    "fast": Numerics(faithful.fast, approximations.FAST),
    "faithful": Numerics(faithful.multiply, measured.MEASURED),
}
