"""A GPU target's kernels, launched on the device and the stream that torch is at."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.backward_arguments import gradients_of, prepare
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.choose_parts import parts_of
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments
from attnspec.runtime.stored_function import function_of
from torch import Tensor


@dataclass(frozen=True)
class LaunchedProgram:
    """Kernels of one variant; each is compiled, or read from the disk, when it is first wanted, and serves every device and size.

    learned: by declaration. make_backward: the backward's module, by `deterministic`. load: a module to its host function.
    splits: parts of the keys, see `choose_parts`.
    """

    emitted: Emitted
    width_v: int
    learned: tuple[bool, ...]
    make_backward: Callable[[bool], Emitted]
    load: Callable[[Emitted], Callable[..., Any]] = function_of
    splits: int | None = 1

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The forward's host function."""
        return self.load(self.emitted)

    @cached_property
    def backward_function(self) -> tuple[Emitted, Callable[..., Any]]:
        """The backward's module and host function."""
        return self._backward(False)

    @cached_property
    def deterministic_function(self) -> tuple[Emitted, Callable[..., Any]]:
        """Those whose bits do not depend on timing."""
        return self._backward(True)

    def _backward(self, deterministic: bool) -> tuple[Emitted, Callable[..., Any]]:
        emitted = self.make_backward(deterministic)
        return emitted, self.load(emitted)

    def forward(self, call: Call, /) -> Forward:
        """out and lse; the device works on when this returns."""
        call = detached(call)
        out, lse = empty_results(call, self.width_v)
        if out.numel():
            available = processors(call.q.device)
            parts = parts_of(call, self.splits, self.emitted.manifest["work"], available)
            self.function(*forward_arguments(call, out, lse, parts), available)
        return Forward(out, lse, ())

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients. `Unsupported` names the statement that the target's backward cannot run."""
        emitted, function = self.deterministic_function if call.deterministic else self.backward_function
        call = detached(call)
        results = Forward(results.out.detach(), results.lse.detach(), ())
        prepared = prepare(call, results, dout.detach(), dlse.detach(), self.learned, emitted.manifest["scratch"])
        if results.out.numel():
            function(*prepared.arguments, processors(call.q.device))
        return gradients_of(call, self.learned, prepared)


def detached(call: Call) -> Call:
    """The call's tensors without autograd's history, which nothing outside of torch takes."""
    q, k, v = call.q, call.k, call.v
    if not (q.requires_grad or k.requires_grad or v.requires_grad):
        return call
    return call._replace(q=q.detach(), k=k.detach(), v=v.detach())


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a device: as many CTAs share out the tiles of a call."""
    return torch.cuda.get_device_properties(device).multi_processor_count
