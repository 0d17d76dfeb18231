"""A GPU target's kernels, launched on the device and the stream that torch is at."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from attnspec.backends.emitted import Emitted
from attnspec.backends.layout import Layout
from attnspec.runtime.backward_arguments import gradients_of, prepare
from attnspec.runtime.backward_forms import BackwardForms, Form, none_is_short
from attnspec.runtime.call import Call, Forward, Gradients
from attnspec.runtime.choose_parts import parts_of
from attnspec.runtime.kernel_arguments import boxed_of, declared_arguments, empty_results, forward_arguments
from attnspec.runtime.stored_function import function_of
from torch import Tensor

MOST_KNOWN = 4096  # layouts; then all are forgotten


Room = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides: with both, an allocation takes torch half as long


def room(tensor: Tensor) -> Room:
    """That of a tensor, as plain tuples, which torch reads faster than its own sizes."""
    return tuple(tensor.shape), tuple(tensor.stride())


class Known(NamedTuple):
    """What calls of one layout have in common: room for results, and the arguments behind the tensors. Layouts are made once
    for all calls with the same shapes and strides; this one is held, so that no other is found at its address.
    """

    layout: Layout
    out: Room
    lse: Room
    rest: tuple[Any, ...]


@dataclass(frozen=True)
class LaunchedProgram:
    """Kernels of one variant; each is compiled, or read from the disk, when it is first wanted, and serves every device and size.

    learned: by declaration. make_backward: a module of the backward. load: a module to its host function.
    splits: parts of the keys, see `choose_parts`. short_calls: see `BackwardForms`. spare: multiprocessors left to who else works
    on the device at the time: a kernel that shares its tiles out over all of them beforehand would wait for the last.
    """

    emitted: Emitted
    width_v: int
    learned: tuple[bool, ...]
    make_backward: Callable[[Form], Emitted]
    load: Callable[[Emitted], Callable[..., Any]] = function_of
    splits: int | None = 1
    short_calls: Callable[[], int] = none_is_short
    spare: int = 0
    known: dict[int, Known] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The forward's host function."""
        return self.load(self.emitted)

    @cached_property
    def boxed(self) -> tuple[bool, ...]:
        """Of the variant's tensors, those of which the forward takes boxes."""
        return boxed_of(self.emitted.manifest, len(self.learned))

    @cached_property
    def backwards(self) -> BackwardForms[tuple[Emitted, Callable[..., Any]]]:
        """Modules of the backward, and their host functions."""
        return BackwardForms(self._loaded, self.short_calls)

    def _loaded(self, form: Form) -> tuple[Emitted, Callable[..., Any]]:
        emitted = self.make_backward(form)
        return emitted, self.load(emitted)

    def forward(self, call: Call, /) -> Forward:
        """out and lse; the device works on when this returns."""
        known = self.known.get(id(call.layout))
        if known is None:
            return self.forward_anew(detached(call))
        q, k, v, tensors = call[:4]
        if q.requires_grad or k.requires_grad or v.requires_grad:
            q, k, v = q.detach(), k.detach(), v.detach()
        out = torch.empty_strided(*known.out, dtype=q.dtype, device=q.device)
        lse = torch.empty_strided(*known.lse, dtype=torch.float32, device=q.device)
        self.function(q, k, v, out, lse, *(declared_arguments(tensors, self.boxed) if tensors else ()), *known.rest)
        return Forward(out, lse, ())

    def forward_anew(self, call: Call) -> Forward:
        """The same of a call whose arguments are not known from one like it."""
        out, lse = empty_results(call, self.width_v)
        if out.numel():
            parts = self.parts_of(call)
            arguments = (*forward_arguments(call, out, lse, parts, self.boxed), self.processors(call.q.device))
            self.function(*arguments)
            if not call.layout.is_packed and parts in (None, 1):
                if len(self.known) >= MOST_KNOWN:
                    self.known.clear()
                self.known[id(call.layout)] = Known(call.layout, room(out), room(lse), arguments[5 + len(call.tensors) :])
        return Forward(out, lse, ())

    def parts_of(self, call: Call) -> int | None:
        """Into how many parts the keys are cut; None for a kernel that has no parts."""
        if self.splits is not None:
            return self.splits if self.has_parts else None
        return parts_of(call, None, self.emitted.manifest["work"], self.processors(call.q.device))

    def sparing(self, count: int) -> "LaunchedProgram":
        """The same kernels on so many multiprocessors less."""
        return self if count == self.spare else replace(self, spare=count, known={})

    def processors(self, device: torch.device) -> int:
        """As many CTAs share out the tiles of a call."""
        return max(1, processors(device) - self.spare)

    @cached_property
    def has_parts(self) -> bool:
        """Whether the kernel is told of parts."""
        return bool(self.emitted.manifest["work"])

    def backward(self, call: Call, results: Forward, dout: Tensor, dlse: Tensor, /) -> Gradients:
        """Gradients. `TargetError` names the statement that the target's backward cannot run."""
        emitted, function = self.backwards.of(call)
        call = detached(call)
        results = Forward(results.out.detach(), results.lse.detach(), ())
        prepared = prepare(call, results, dout.detach(), dlse.detach(), self.learned, emitted.manifest["scratch"])
        if results.out.numel():
            function(*prepared.arguments, self.processors(call.q.device))
        return gradients_of(call, self.learned, prepared)


def detached(call: Call) -> Call:
    """The call's tensors without autograd's history, which nothing outside of torch takes."""
    q, k, v = call[:3]
    if not (q.requires_grad or k.requires_grad or v.requires_grad):
        return call
    return call._replace(q=q.detach(), k=k.detach(), v=v.detach())


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a device."""
    return torch.cuda.get_device_properties(device).multi_processor_count
