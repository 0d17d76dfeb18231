"""attnspec: a few lines of text become attention kernels, forward and backward.

`import attnspec` costs little: what it exports is loaded when first used, and torch only by a call.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnspec.api import Attention, build
    from attnspec.errors import ArgumentError, CacheError, TargetError
    from attnspec.flex.attention import flex_attention
    from attnspec.flex.from_flex import FlexVariant, from_flex
    from attnspec.language.diagnostics import SpecError
    from attnspec.language.spec import Spec

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "Attention",
    "CacheError",
    "FlexVariant",
    "Spec",
    "SpecError",
    "TargetError",
    "build",
    "flex_attention",
    "from_flex",
]

_HOMES = {
    "Attention": "attnspec.api",
    "build": "attnspec.api",
    "FlexVariant": "attnspec.flex.from_flex",
    "flex_attention": "attnspec.flex.attention",
    "from_flex": "attnspec.flex.from_flex",
    "ArgumentError": "attnspec.errors",
    "CacheError": "attnspec.errors",
    "TargetError": "attnspec.errors",
    "SpecError": "attnspec.language.diagnostics",
    "Spec": "attnspec.language.spec",
}


_MODULES = ("nn", "variants")


def __getattr__(name: str) -> Any:
    """An exported name, loaded on first use."""
    if name in _MODULES:
        return import_module(f"attnspec.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'attnspec' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
