"""Errors of a call or of a target; errors of a spec are `SpecError` in `attnspec.language.diagnostics`."""

from typing import Any


class ArgumentError(ValueError, TypeError):
    """An argument of a call is wrong: says which, what was wanted, what was found, and why it matters."""


class IntegerOverflowError(ArgumentError):
    """An integer of the file may leave 32 bits at a call's sizes and values. diagnostic: where in the file, and what to do."""

    def __init__(self, diagnostic: Any) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class TargetError(RuntimeError):
    """A target cannot compile or run this variant, or cannot run on this machine; says which statement or part, and why."""


class CacheError(RuntimeError):
    """The cache folder cannot be used: it cannot be made, or others could put code there."""
