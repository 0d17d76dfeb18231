"""A variant as one rank sees it: without its sink, for one of several packed sequences, for some of the heads.

Each is the same variant with names written out, so that a kernel of it needs to know nothing of ranks.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from attnspec.language.expr import Binary, Expr, Name, Number, Read, names, rewrite
from attnspec.language.spec import Spec, Tensor

MOST_KEPT = 256  # a call asks for its forms again each time
OF_HEADS = frozenset({"h", "hkv", "heads", "kv_heads"})


@lru_cache(maxsize=MOST_KEPT)
def without_sink(spec: Spec) -> Spec:
    """For all parts of a row but one: a sink joins the denominator once."""
    return replace(spec, sink=None)


@lru_cache(maxsize=MOST_KEPT)
def for_one_sequence(spec: Spec, sequences: int) -> Spec:
    """A `varlen` variant as one of a batch of one; the number of the sequence is a scalar input, the last declared tensor.

    sequences: how many there are, a constant in what is written.
    """
    name = "sequence"
    while any(tensor.name == name for tensor in spec.tensors):
        name += "_"
    number = Tensor(name, "i32", (), False)
    values: dict[str, Expr] = {"b": Read(name, (), "int"), "batch": Number(sequences, "int")}
    return replace(with_names(spec, values), is_varlen=False, tensors=(*with_names(spec, values).tensors, number))


@lru_cache(maxsize=MOST_KEPT)
def for_heads(spec: Spec, first: int, first_kv: int, heads: int, kv_heads: int) -> Spec:
    """For the heads from `first` and `first_kv` on, of so many; the spec itself, but for its group, if it names no heads."""
    spec = replace(spec, group=None)
    if not names_of(spec) & OF_HEADS:
        return spec
    values: dict[str, Expr] = {
        "h": Binary("+", Name("h", "int"), Number(first, "int"), "int"),
        "hkv": Binary("+", Name("hkv", "int"), Number(first_kv, "int"), "int"),
        "heads": Number(heads, "int"),
        "kv_heads": Number(kv_heads, "int"),
    }
    return with_names(spec, values)


def names_of(spec: Spec) -> frozenset[str]:
    """Given names that a variant uses anywhere."""
    return frozenset[str]().union(*(names(expr) for expr in expressions(spec)))


def expressions(spec: Spec) -> list[Expr]:
    """All of a variant's expressions."""
    found = [spec.score, spec.mask, spec.sink, spec.scale]
    found += [expr for tensor in spec.tensors for expr in (*tensor.shape, tensor.low, tensor.high)]
    return [expr for expr in found if expr is not None]


def with_names(spec: Spec, values: Mapping[str, Expr]) -> Spec:
    """Values in the place of given names."""

    def change(expr: Expr) -> Expr:
        return rewrite(expr, lambda at: values.get(at.name, at) if isinstance(at, Name) else at)

    def change_any(expr: Expr | None) -> Expr | None:
        return None if expr is None else change(expr)

    tensors = tuple(
        replace(tensor, shape=tuple(map(change, tensor.shape)), low=change_any(tensor.low), high=change_any(tensor.high))
        for tensor in spec.tensors
    )
    return replace(
        spec,
        score=change(spec.score),
        mask=change_any(spec.mask),
        sink=change_any(spec.sink),
        scale=change(spec.scale),
        tensors=tensors,
    )
