"""Which line of source an instruction is put down to: the compiler's own choice is the innermost, most often a wrapper's."""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cutlass._mlir import ir
from cutlass._mlir_helpers.op import loc_transform

LIBRARY = str(Path(__file__).parents[2])
# Files whose functions spell an instruction or two: who calls them says more.
WRAPPERS = ("ptx", "arithmetic", "exponential", "f32", "fences", "pipes", "tensor_core", "tensor_memory")


@contextmanager
def telling_lines(file: str, lines: Collection[int]) -> Iterator[None]:
    """While a kernel is traced, put instructions down to the innermost line that is one of `lines` of `file` (those made from a
    spec's expressions), or that is in the library and not in a wrapper."""
    wanted = frozenset(lines)

    def choose(location: Any) -> Any:
        frame = None if location is None else sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if frame.f_lineno in wanted if name == file else _tells(name):
                return ir.Location.file(name, frame.f_lineno, 0)
            frame = frame.f_back
        return location

    with loc_transform(choose):
        yield


@cache
def _tells(name: str) -> bool:
    return name.startswith(LIBRARY) and "/kernel/" in name and Path(name).stem not in WRAPPERS
