"""Inline PTX, spelled once."""

from collections.abc import Sequence
from typing import Any

import cutlass.cute as cute

ODD_NAN = 0x7FA12345  # an f32 that no arithmetic makes, and that nobody but us knows: what is compared with it is needed first


def ptx(text: str, *arguments: Any, returns: Sequence[type] = ()) -> Any:
    """One PTX instruction or block. `{$r0}`, `{$r1}`, ... are the arguments, `{$w0}`, ... the results."""
    return cute.arch.inline_ptx(text, write_only_types=list(returns), read_only_args=list(arguments))
