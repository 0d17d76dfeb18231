"""Variants by their handle: what a graph of torch's holds of a variant, and finds it again by.

A handle is one line: Inductor writes the arguments of a node as they stand into a comment above the kernel made of it.
"""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnspec.api import Attention

_built: "dict[str, Attention]" = {}


def remember(attention: "Attention") -> str:
    """The handle of a variant, which is found by it from now on."""
    _built.setdefault(attention.handle, attention)
    return attention.handle


def attention_of(handle: str) -> "Attention":
    """The variant of a handle: built anew where a graph comes from another process."""
    found = _built.get(handle)
    if found is None:
        from attnspec.api import build

        options = json.loads(handle)
        found = _built.setdefault(handle, build(options.pop("spec"), **options))
    return found


def learned_of(handle: str) -> tuple[bool, ...]:
    """By declaration, whether a tensor receives a gradient."""
    return attention_of(handle).learned_flags
