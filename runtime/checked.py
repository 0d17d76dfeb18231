"""Calls of one variant, checked: what was right once for some shapes and strides is right again, and is not looked at twice."""

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Any

import torch
from attnspec.backends.layout import Layout
from attnspec.runtime.arguments import ALIGNMENT, Placing, check_call, check_int
from attnspec.runtime.call import Call
from attnspec.runtime.declared import check_arrays, check_values, rests_on_values, take_declared
from torch import Tensor

from attnspec.language.spec import Spec

MOST_KEPT = 4096  # signatures; then all are forgotten
facts_of = attrgetter("shape", "dtype", "device")


class Checks:
    """The checks of one variant, with the layouts of the calls seen so far, by all that they rest on."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rests_on_values = rests_on_values(spec)
        self.layouts: dict[Hashable, Layout] = {}

    def call(self, q: Tensor, k: Tensor, v: Tensor, given: Mapping[str, Any], placing: Placing, deterministic: bool) -> Call:
        """The call; ArgumentError for one that does not fit the spec."""
        if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
            check_call(self.spec, q, k, v, placing)
        tensors = take_declared(self.spec, given, q.device) if given or self.spec.tensors else ()
        return self.with_tensors(q, k, v, tensors, placing, deterministic)

    def with_tensors(
        self, q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...], placing: Placing, deterministic: bool
    ) -> Call:
        """The same of declared tensors that have their dtypes."""
        key = (
            (None if placing is WHOLE else place_of(placing)),
            *(facts_of(q), q.stride(), facts_of(k), k.stride(), facts_of(v), v.stride()),
            *([(facts_of(array), array.stride()) for array in tensors] if tensors else ()),
        )
        layout = self.layouts.get(key)
        if layout is None or (q.data_ptr() | k.data_ptr() | v.data_ptr()) % ALIGNMENT:
            layout = self.checked(q, k, v, tensors, placing)
            if not layout.is_packed or not layout.segments:  # segments rest on the values of the starts
                self.keep(key, layout)
        elif self.rests_on_values and not q.is_cuda:
            check_values(self.spec, tensors, layout)
        return Call(q, k, v, tensors, layout, deterministic, starts_of(placing, q.device) if layout.is_packed else None)

    def keep(self, key: Hashable, layout: Layout) -> None:
        """Remember a layout."""
        if len(self.layouts) >= MOST_KEPT:
            self.layouts.clear()
        self.layouts[key] = layout

    def checked(self, q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...], placing: Placing) -> Layout:
        """Every check."""
        layout = check_call(self.spec, q, k, v, placing)
        check_arrays(self.spec, tensors, layout)
        return layout


def place_of(placing: Placing) -> Hashable:
    """What a layout rests on of a placing: plain ints, so that two calls are alike if and only if these are."""
    names = ("q_offset", "kv_offset", "len_q", "len_kv")
    numbers = [None if getattr(placing, name) is None else check_int(name, getattr(placing, name)) for name in names]
    starts = [facts_of(one) if isinstance(one, Tensor) else one is None for one in (placing.cu_seqlens_q, placing.cu_seqlens_kv)]
    return (*numbers, *starts)


def starts_of(placing: Placing, device: torch.device) -> tuple[Tensor, Tensor] | None:
    """Starts of packed sequences as a kernel takes them; None on the CPU, where the layout has them."""
    if device.type != "cuda":
        return None
    given = (placing.cu_seqlens_q, placing.cu_seqlens_kv)
    starts_q, starts_kv = (torch.as_tensor(one, dtype=torch.int32, device=device) for one in given)
    return starts_q, starts_kv


WHOLE = Placing()  # that of most calls
