"""Inputs that a kernel is timed on: as drawn for tests, but documents of a usable length, the same for queries and keys."""

from dataclasses import replace

import torch

from attnspec.language.spec import Spec
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape


def draw_for_bench(spec: Spec, shape: Shape, documents: int) -> Inputs:
    """Drawn inputs. Sorted ids without a declared range are those of so many documents a sequence, in equal parts."""
    inputs = draw_inputs(spec, fit_shape(spec, shape))
    tensors = dict(inputs.tensors)
    for tensor in spec.tensors:
        if tensor.is_sorted and tensor.low is None and tensor.dtype == "i32":
            count = tensors[tensor.name].shape[-1]
            ids = torch.arange(count, dtype=torch.int32) * documents // max(1, count)
            tensors[tensor.name] = ids.expand_as(tensors[tensor.name]).contiguous()
    return replace(inputs, tensors=tensors)
