"""The public way in: `build` a variant, then call it."""

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from attnspec import stages, variants
from attnspec.errors import ArgumentError, TargetError
from attnspec.language.show import show
from attnspec.language.spec import Spec
from attnspec.language.suggest import nearest

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.runtime.arguments import Lengths
    from attnspec.runtime.checked import Checks
    from attnspec.runtime.kernel import Kernel

TARGETS = ("sm100", "sm90", "reference")
MOST_SPLITS = 256


def build(
    spec: str | os.PathLike[str] | Spec,
    /,
    *,
    target: str | None = None,
    on: str | None = None,
    splits: int | None = 1,
    ctas: Literal[1, 2] | None = None,
    query_tiles: Literal[1, 2] | None = None,
    **constants: int | float,
) -> "Attention":
    """An attention variant, ready to be called.

    spec: a path, the text itself, or a checked Spec. target: "sm100", "sm90" or "reference"; None picks by the device of the
    tensors. on: "emulator" runs a GPU target without its GPU. constants: values that override the file's `const`s.
    splits: on sm100, parts into which the keys of each row are cut and whose results are then merged: for few queries over many
    keys. None takes as many as keep its processors at work (one on other targets); a row's bits then depend on the whole call,
    not on the row's inputs alone.
    ctas: on sm100, 2 lets pairs of CTAs share keys and values in the forward, queries in the backward where they can (`attnc
    explain` says why not), 1 does not; None leaves both to the cost model, in which a call of few keys has a backward of its own.
    query_tiles: of a work tile of the forward on sm100: 1 takes two key tiles a step instead, for heads of no more than 128 rows;
    2 is what is made unasked.
    SpecError if the spec is wrong; TargetError if the target cannot run it.
    """
    if isinstance(spec, Spec):
        if constants:
            raise ArgumentError(f"{', '.join(constants)}: a Spec has its constants folded in; override them in the file or text")
    elif isinstance(spec, str | os.PathLike):
        refuse_name(spec)
        spec = stages.read(spec, constants)
    else:
        holds_one = isinstance(getattr(spec, "spec", None), Spec)
        hint = ": give what it has in `.spec`" if holds_one else ""
        raise ArgumentError(f"spec: a path, the text of a variant or a Spec is wanted, got {type(spec).__name__}{hint}")
    if target is not None and target not in TARGETS:
        raise ArgumentError(f"target: {target!r}, wanted one of {', '.join(TARGETS)}")
    if on not in (None, "emulator"):
        raise ArgumentError(f"on: {on!r}, wanted 'emulator' or nothing")
    if on == "emulator" and target == "reference":
        raise ArgumentError("on: the reference runs on the CPU as it is; the emulator runs the GPU targets")
    refuse_splits(splits, target)
    refuse_pair(ctas, target, splits)
    refuse_query_tiles(query_tiles, target, ctas)
    return Attention(spec, target, on, splits, ctas, query_tiles)


def refuse_name(spec: str | os.PathLike[str]) -> None:
    """ArgumentError for the name of a standard variant, or nearly one: the command line takes it for FILE, here it is a path."""
    if not isinstance(spec, str) or not spec.isidentifier() or os.path.lexists(spec):
        return
    name = spec if spec in variants.names() else nearest(spec, variants.names())
    if name is not None:
        which = "the standard variant of that name" if name == spec else f"if the standard variant {name!r} is meant, it"
        raise ArgumentError(f"spec: there is no file {spec!r} here; {which} is attnspec.build(attnspec.variants.path({name!r}))")


def refuse_splits(splits: object, target: str | None) -> None:
    """ArgumentError for a number of parts that there is none of, or that a target does not cut keys into."""
    if splits is not None and (isinstance(splits, bool) or not isinstance(splits, int) or not 1 <= splits <= MOST_SPLITS):
        raise ArgumentError(f"splits: {splits!r}, wanted an int from 1 to {MOST_SPLITS}, or None for as many as keep a GPU busy")
    if splits not in (None, 1) and target in ("sm90", "reference"):
        raise ArgumentError(f"splits: parts of the keys are for sm100, not for {target}")


def refuse_pair(ctas: object, target: str | None, splits: int | None) -> None:
    """ArgumentError for a number of CTAs that there is none of, or that does not go with the rest."""
    if ctas not in (None, 1, 2):
        raise ArgumentError(f"ctas: {ctas!r}, wanted 1, 2 or nothing")
    if ctas == 2 and target in ("sm90", "reference"):
        raise ArgumentError(f"ctas: pairs of CTAs are for sm100, not for {target}")
    if ctas == 2 and splits != 1:
        raise ArgumentError("ctas: a pair of CTAs visits all keys of its rows; it goes with splits=1")


def refuse_query_tiles(query_tiles: object, target: str | None, ctas: object) -> None:
    """An error for a number of query tiles that there is none of, or that does not go with the rest."""
    if query_tiles not in (None, 1, 2):
        raise ArgumentError(f"query_tiles: {query_tiles!r}, wanted 1, 2 or nothing")
    if query_tiles is not None and target in ("sm90", "reference"):
        raise ArgumentError(f"query_tiles: a choice of kernels for sm100, not for {target}")
    if query_tiles == 1 and ctas == 2:
        raise TargetError("query_tiles=1, ctas=2: a pair of CTAs has two query tiles of each; give one of the two")


_attend: Any = None  # `operators.attend`, once it is loaded: an import statement in each call would take a microsecond


def load_attend() -> Any:
    """The operators, and torch with them."""
    global _attend
    from attnspec.operators import attend

    _attend = attend
    return attend


class Attention:
    """A variant as a function of q, k, v and its declared tensors; differentiable.

    spec: the checked spec. target: as given to `build`, None if each call's device decides. ctas, query_tiles: as given there.
    handle: all of it as one line: an operator in a graph that torch has traced, or loaded from a file, finds it by that.
    """

    def __init__(
        self,
        spec: Spec,
        target: str | None = None,
        on: str | None = None,
        splits: int | None = 1,
        ctas: Literal[1, 2] | None = None,
        query_tiles: Literal[1, 2] | None = None,
    ) -> None:
        self.spec = spec
        self.target = target
        self.on = on
        self.splits = splits
        self.ctas: Literal[1, 2] | None = ctas
        self.query_tiles: Literal[1, 2] | None = query_tiles
        # From which another process builds the same. Made now: torch.compile does not see into a cached property.
        options = {"target": target, "on": on, "splits": splits, "ctas": ctas, "query_tiles": query_tiles}
        self.handle = json.dumps({"spec": show(spec), **options})
        self._kernels: dict[torch.device, Kernel] = {}

    def __repr__(self) -> str:
        width = self.spec.head_dim if self.spec.head_dim == self.spec.head_dim_v else (self.spec.head_dim, self.spec.head_dim_v)
        tensors = "".join(f", {tensor.name}: {tensor.dtype}" for tensor in self.spec.tensors)
        return f"<attnspec.Attention {self.spec.name}: head_dim {width}, {self.spec.dtype}{tensors}>"

    def __reduce__(self) -> "tuple[type[Attention], tuple[Any, ...]]":
        """Copied and pickled as what it was made of: a module that holds one can be copied, and kernels are found again."""
        return Attention, (self.spec, self.target, self.on, self.splits, self.ctas, self.query_tiles)

    @cached_property
    def analysed(self) -> "Analysed":
        """What the analyses found."""
        return stages.analyse(self.spec)

    @cached_property
    def learned_flags(self) -> tuple[bool, ...]:
        """By declaration, whether a tensor receives a gradient."""
        return tuple(tensor.is_learned for tensor in self.spec.tensors)

    @cached_property
    def checks(self) -> "Checks":
        """The checks of its calls."""
        from attnspec.runtime.checked import Checks

        return Checks(self.spec)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the tensors that receive a gradient."""
        return tuple(tensor.name for tensor in self.spec.learned)

    @overload
    def __call__(
        self, /, q: "Tensor", k: "Tensor", v: "Tensor", *, return_lse: Literal[False] = False, **tensors: Any
    ) -> "Tensor": ...

    @overload
    def __call__(
        self, /, q: "Tensor", k: "Tensor", v: "Tensor", *, return_lse: Literal[True], **tensors: Any
    ) -> "tuple[Tensor, Tensor]": ...

    def __call__(
        self,
        /,
        q: "Tensor",
        k: "Tensor",
        v: "Tensor",
        *extra: Any,
        return_lse: bool = False,
        deterministic: bool = False,
        cu_seqlens_q: "Lengths | None" = None,
        cu_seqlens_kv: "Lengths | None" = None,
        q_offset: int = 0,
        kv_offset: int = 0,
        len_q: int | None = None,
        len_kv: int | None = None,
        **tensors: Any,
    ) -> Any:
        """The attention of q over k, v: out, or (out, lse).

        q: (batch, length, heads, head_dim), or with `varlen` (total, heads, head_dim) and cu_seqlens (int32, batch + 1 starts).
        k, v: the same with the key/value heads. lse: natural log, f32, (batch, heads, length) or (heads, total).
        deterministic: the backward too gives the same bits on every run.
        q_offset, kv_offset, len_q, len_kv: where the rows and keys at hand lie in a longer sequence: the global position of the
        first, and the whole lengths (None: the part at hand is the last one). Every index in the spec is a global position, and
        every declared length a whole one.
        tensors: the declared ones, by keyword. ArgumentError for a call that does not fit the spec.
        """
        if extra:
            raise ArgumentError(self._positional(len(extra)))
        places = (cu_seqlens_q, cu_seqlens_kv, q_offset, kv_offset, len_q, len_kv)
        attend = _attend or load_attend()
        out, lse = attend(self, q, k, v, tensors, places, deterministic)
        return (out, lse) if return_lse else out

    def _positional(self, count: int) -> str:
        """What a person is told who gave declared tensors by place."""
        names = ", ".join(f"{tensor.name}=..." for tensor in self.spec.tensors) or "none are declared"
        more = f"{count} more positional argument{'s' * (count > 1)} than q, k and v"
        return f"{more}: declared tensors are given by keyword ({names})"

    def is_reference_on(self, device: "torch.device") -> bool:
        """Whether calls on a device run the reference; asks no GPU, so that graphs can be made for one without it."""
        return self.on is None and device.type == "cpu"

    def kernel_for(self, device: "torch.device") -> "Kernel":
        """The kernel for a call's device; TargetError where the device and the target do not go together."""
        found = self._kernels.get(device)
        if found is None:
            from attnspec.runtime.device import target_for

            found = self._kernels[device] = stages.kernel(self, target_for(device, self.target, self.on))
        return found
