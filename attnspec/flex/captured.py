"""Tensors that the functions captured, as declarations: names, sizes of axes, ranges and order of values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import torch

from attnspec.flex.names import Names
from attnspec.flex.place import Place
from attnspec.flex.refuse import refuse
from attnspec.language import operators
from attnspec.language.context import Context
from attnspec.language.expr import Binary, Call, Expr, Name, Number, Read, nodes
from attnspec.language.indexing import read
from attnspec.language.linear import INDEX_SIZE, Linear
from attnspec.language.names import read_kind
from attnspec.language.ranges import Ranges
from attnspec.language.source import Span
from attnspec.language.spec import Tensor, TensorDType
from attnspec.language.values import is_expr
from attnspec.runtime.integers import interval_of

DTYPES: dict[torch.dtype, TensorDType] = {
    torch.float32: "f32",
    torch.float64: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.bool: "bool",
    **dict.fromkeys((torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64), "i32"),
}
SUFFIXES = {"len_q": "q", "len_kv": "kv", "batch": "b", "heads": "h"}
ZERO = Linear(0)
Key = tuple[int, tuple[Expr, ...], bool]


@dataclass
class CapturedTensors:
    """A tensor is declared once for each way in which its axes are addressed: ids[q] and ids[kv] are two declarations.

    sizes: those of the call, None where unknown; filled in from the first axis that is indexed by the name itself.
    """

    ctx: Context
    names: Names
    sizes: dict[str, int | None]
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    known: dict[Key, str] = field(default_factory=dict)

    def kind_of(self, tensor: torch.Tensor, place: Place) -> str:
        """The kind that an element of a tensor has; other types are refused."""
        dtype = DTYPES.get(tensor.dtype)
        if dtype is None:
            refuse("unknown-type", f"a captured tensor is {tensor.dtype}, which the language does not have", place=place)
        return read_kind(Tensor("", dtype, (), False))

    def element(self, tensor: torch.Tensor, indices: tuple[Expr, ...], name: str, learned: bool, place: Place) -> Expr:
        """The element at some indices, each proved to be inside, or brought inside."""
        axes = [self._axis(size, index, place) for size, index in zip(tensor.shape, indices, strict=True)]
        declared = self._declare(tensor, tuple(extent for extent, _ in axes), name, learned, place)
        at = tuple(index for _, index in axes)
        if not at:
            return Read(declared.name, (), read_kind(declared), place.span)
        value = read(self.ctx, declared, at, place.span)
        self.ctx.faults.stop_if_any()
        assert is_expr(value)
        return value

    def bound(self, exprs: Iterable[Expr], least: int | None = None) -> bool:
        """Declare the ranges that the data have for every i32 tensor read; whether any declaration changed.

        least: only where no value is below it.
        """
        changed = False
        for at in (at for expr in exprs for at in nodes(expr)):
            if isinstance(at, Read) and at.kind == "int" and self.ctx.tensors[at.tensor].low is None:
                values = _range(self.tensors[at.tensor])
                if values is not None and (least is None or values[0] >= least):
                    self._set_range(at.tensor, Number(min(0, values[0]) if least is None else least, "int"), values[1])
                    changed = True
        return changed

    def _set_range(self, name: str, low: Expr, high: int) -> None:
        declared = replace(self.ctx.tensors[name], low=low, high=Number(high, "int"))
        self.ctx.tensors[name] = declared
        self.ctx.ranges = Ranges(self.ctx.tensors)  # what was proved before holds: a range only grows tighter

    def _declare(self, tensor: torch.Tensor, extents: tuple[Expr, ...], name: str, learned: bool, place: Place) -> Tensor:
        self.kind_of(tensor, place)
        is_learned = learned and tensor.requires_grad
        key = (id(tensor), extents, is_learned)
        if key not in self.known:
            others = [known for (which, _, _), known in self.known.items() if which == key[0]]
            given = self.names.fresh(self._name(name, extents, bool(others)))
            dtype = DTYPES[tensor.dtype]
            is_sorted = dtype == "i32" and bool(extents) and _is_position(extents[-1]) and _is_sorted(tensor)
            self.ctx.tensors[given] = Tensor(given, dtype, extents, is_learned, is_sorted=is_sorted, span=place.span)
            self.tensors[given] = tensor
            self.known[key] = given
        return self.ctx.tensors[self.known[key]]

    def _name(self, name: str, extents: tuple[Expr, ...], is_again: bool) -> str:
        """`ids_kv` for a second way to address `ids`, or for one that is addressed by positions."""
        last = extents[-1] if extents else None
        suffix = SUFFIXES.get(last.name) if isinstance(last, Name) and is_again else None
        return f"{name}_{suffix}" if suffix else name

    # Axes.

    def _axis(self, size: int, index: Expr, place: Place) -> tuple[Expr, Expr]:
        """The extent to declare for an axis, and the index, proved to be inside."""
        if isinstance(index, Number):
            return Number(size, "int"), self._fixed(size, int(index.value), place)
        if isinstance(index, Name) and self.sizes.get(INDEX_SIZE[index.name]) is None:
            self.sizes[INDEX_SIZE[index.name]] = size
        for extent in (*self._named(size, index), Number(size, "int")):
            if self._is_inside(extent, index):
                return extent, index
        before = dict(self.ctx.tensors)
        if isinstance(index, Read) and self._fits(index.tensor, size):
            self._set_range(index.tensor, Number(0, "int"), size - 1)
            return Number(size, "int"), index
        extent = Number(size, "int")
        if self.bound([index]) and self._is_inside(extent, index):
            return extent, index
        self.ctx.tensors.update(before)
        self.ctx.ranges = Ranges(self.ctx.tensors)
        return extent, self._brought_inside(size, index, place)

    def _fixed(self, size: int, index: int, place: Place) -> Expr:
        """A constant index, counted from the end if negative."""
        if not -size <= index < size:
            refuse("index-out-of-range", f"index {index} is outside of an axis of {size}", place=place)
        return Number(index % size, "int", place.span)

    def _named(self, size: int, index: Expr) -> Iterable[Expr]:
        """Extents in size names that are the size at hand, by the names that the index uses."""
        used = {INDEX_SIZE[at.name] for at in nodes(index) if isinstance(at, Name) and at.name in INDEX_SIZE}
        for name, count in self.sizes.items():
            if count is None or name not in used:
                continue
            extent = Name(name, "int")
            if count == size:
                yield extent
            divisor = index.right if isinstance(index, Binary) and index.op == "//" else None
            if isinstance(divisor, Number) and size == -(-count // int(divisor.value)):
                above = self._made("+", extent, Number(int(divisor.value) - 1, "int"))
                yield self._made("//", above, divisor)

    def _made(self, op: str, left: Expr, right: Expr) -> Expr:
        value = operators.binary(self.ctx, op, left, right, Span(left.span.source, 0, 0))
        assert is_expr(value)
        return value

    def _is_inside(self, extent: Expr, index: Expr) -> bool:
        form, found = self.ctx.ranges.form(extent), self.ctx.ranges.of(index)
        return form is not None and found.is_at_least(ZERO) and found.is_at_most(form.plus(-1))

    def _fits(self, name: str, size: int) -> bool:
        """Whether the values of an i32 tensor without a range are indices of an axis of a size."""
        values = _range(self.tensors[name]) if self.ctx.tensors[name].low is None else None
        return values is not None and values[0] >= 0 and values[1] < size

    def _brought_inside(self, size: int, index: Expr, place: Place) -> Expr:
        """The same element for every index that torch takes (a negative one counts from the end), and a safe one for others."""
        found = self.ctx.ranges.of(index)
        last = Number(size - 1, "int", place.span)
        if found.is_at_least(ZERO):
            return Call("min", (index, last), "int", place.span)
        if self._at_hand(index)[0] >= 0:
            return Call("min", (Call("max", (index, Number(0, "int")), "int", place.span), last), "int", place.span)
        value = operators.binary(self.ctx, "%", index, Number(size, "int", place.span), place.span)
        self.ctx.faults.stop_if_any()
        assert is_expr(value)
        return value

    def _at_hand(self, index: Expr) -> tuple[float, float]:
        """The range of an index at the sizes of the call, with the data at hand."""
        ranges = {}
        for name, size in INDEX_SIZE.items():
            count = self.sizes.get(size)
            if count is None and any(isinstance(at, Name) and at.name in (name, size) for at in nodes(index)):
                return -inf, inf
            ranges |= {name: (0, (count or 1) - 1), size: (count or 1, count or 1)}
        reads = {at.tensor for at in nodes(index) if isinstance(at, Read)}
        values = {name: _range(self.tensors[name]) or (-(2**31), 2**31 - 1) for name in reads}
        return interval_of(index, ranges, values)


def _is_position(extent: Expr) -> bool:
    return isinstance(extent, Name) and extent.name in ("len_q", "len_kv")


def _data(tensor: torch.Tensor, ask: Callable[[torch.Tensor], Any]) -> Any:
    """What the values say; None where they cannot be had (no elements, no memory)."""
    if not tensor.numel() or tensor.is_meta:
        return None
    try:
        with torch._C.DisableTorchFunctionSubclass(), torch._C.DisableTorchFunction(), torch.no_grad():
            return ask(tensor.detach())
    except (RuntimeError, NotImplementedError):
        return None


def _range(tensor: torch.Tensor) -> tuple[int, int] | None:
    return _data(tensor, lambda values: (int(values.min()), int(values.max())))


def _is_sorted(tensor: torch.Tensor) -> bool:
    """Whether data show that values never fall along the last axis."""
    return bool(_data(tensor, lambda values: values.shape[-1] > 1 and bool((values.diff(dim=-1) >= 0).all())))
