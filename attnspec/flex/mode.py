"""What torch calls while a function is traced: every function of it that is called, on whatever."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnspec.flex.calls import call
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Traced


class Tracing(TorchFunctionMode):
    """Carries out what makes tensors of Python numbers, and builds expressions of the rest."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """One call."""
        return call(self.trace, func, args, kwargs or {})


def run(trace: Trace, function: Any, arguments: tuple[Traced, ...]) -> Any:
    """What a function returns for traced arguments."""
    with torch.no_grad(), Tracing(trace):
        return function(*arguments)
