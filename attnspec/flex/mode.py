"""What torch calls while a function is traced: every function of it that is called, on whatever."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from attnspec.errors import ArgumentError
from attnspec.flex.calls import call
from attnspec.flex.chance import watched
from attnspec.flex.place import OURS, START, raised_at
from attnspec.flex.refuse import refuse
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Traced
from attnspec.language.diagnostics import InternalError


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
    refuse_if_drawn = watched(function)
    try:
        with torch.no_grad(), Tracing(trace):
            found = function(*arguments)
    except (ArgumentError, InternalError):
        raise
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        _refuse_if_of_tracing(error)
        raise
    refuse_if_drawn()
    return found


def _refuse_if_of_tracing(error: Exception) -> None:
    """Refuse where an error is one of what stands for a tensor, and so no fault that the function has by itself."""
    frame, place = raised_at(error)
    says = str(error)
    if frame.f_code.co_filename.startswith(OURS) and frame.f_code.co_filename != START:
        refuse("not-traceable", f"this cannot be traced: {says}", place=place)
    if Traced.__name__ in says:
        help = "use operators and functions of torch; what needs numbers, compute before, and capture it as a tensor"
        refuse("not-traceable", "this takes numbers or arrays, but its value differs from element to element", help, place=place)
