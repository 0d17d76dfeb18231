"""The compiler as one walk, a function a stage: text to tree, spec, analysed, dataflow, schedule, emitted, binary.

Each takes one value and gives the next. Modules are imported where they are used, so that a stage costs what it needs:
nothing heavy is loaded before a spec is known to be good.
"""

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.api import Attention
    from attnspec.backends.emitted import Emitted
    from attnspec.language.spec import Spec
    from attnspec.language.syntax import Tree
    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.runtime.kernel import Kernel

_kernels: "dict[str, Kernel]" = {}
_lock = Lock()


def parse(text: str, name: str = "<text>") -> "Tree":
    """Text to tree."""
    from attnspec.language.parse import parse

    return parse(text, name)


def check(tree: "Tree", constants: Mapping[str, int | float] = {}) -> "Spec":
    """Tree to spec; constants override the file's."""
    from attnspec.language.check import check

    return check(tree, constants)


def read(source: str | os.PathLike[str], constants: Mapping[str, int | float] = {}) -> "Spec":
    """A path or a text to a spec: both stages at once."""
    from attnspec.language.load import read_spec

    return read_spec(source, constants)


def analyse(spec: "Spec") -> "Analysed":
    """Spec to analysed: key ranges, derivatives, bounds, reads."""
    from attnspec.lowering.analysis.analyse import analyse

    return analyse(spec)


def emit_reference(analysed: "Analysed") -> "Emitted":
    """Analysed to torch source; the reference needs no dataflow and no schedule."""
    from attnspec.backends.reference.backend import Reference

    return Reference().emit(analysed)


def kernel(attention: "Attention", target: str) -> "Kernel":
    """The callable of a variant on a target: made once for all variants of one meaning, in this process."""
    from attnspec.runtime.cache_key import cache_key

    key = cache_key(attention.spec, target, {})
    with _lock:
        found = _kernels.get(key)
    if found is None:
        made = make_kernel(attention, target)
        with _lock:
            found = _kernels.setdefault(key, made)
    return found


def make_kernel(attention: "Attention", target: str) -> "Kernel":
    """Walk the stages from the spec to a callable."""
    from attnspec.runtime.kernel import Kernel
    from attnspec.runtime.reference_program import ReferenceProgram

    if target != "reference":
        raise TargetError(f"target {target!r} cannot be launched by this version of attnspec")
    learned = tuple(tensor.is_learned for tensor in attention.spec.tensors)
    return Kernel(ReferenceProgram(emit_reference(attention.analysed), learned))
