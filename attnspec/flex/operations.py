"""Torch's functions and methods on traced values: a name to what it builds."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy
import torch

from attnspec.flex import arithmetic
from attnspec.flex.arithmetic import ELEMENTWISE, result_kind
from attnspec.flex.chance import is_random, refuse_random
from attnspec.flex.grids import dot, getitem, reduce, squeeze, transpose, unsqueeze
from attnspec.flex.place import Place, here
from attnspec.flex.refuse import refuse, refuse_value
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Indices, Traced
from attnspec.flex.vocabulary import ALIASES, NOT_IN_THE_LANGUAGE, ROUNDED
from attnspec.language.expr import Expr, Kind, Number, Truth


def is_known(name: str) -> bool:
    """Whether a method of that name is one of the operations."""
    name = ALIASES.get(name, name)
    return name in ELEMENTWISE or name in SPECIAL or name in ROUNDED or name in NOT_IN_THE_LANGUAGE or name.endswith("_")


def refuse_unknown(name: str) -> NoReturn:
    """There is no such operation in the language. A near name is offered for what torch has not either: a slip of the pen."""
    if is_random(name):
        refuse_random(name)
    is_slip = not any(hasattr(where, name) for where in (torch, torch.Tensor, torch.nn.functional))
    close = get_close_matches(name, [*ELEMENTWISE, *SPECIAL], 1) if is_slip else []
    otherwise = "write it by functions that are there; or, if no score goes into it, compute it before, and capture the result"
    help = NOT_IN_THE_LANGUAGE.get(name) or (f"there is `{close[0]}`" if close else otherwise)
    refuse("unknown-function", f"`{name}` has no counterpart in the language", help)


def operate(trace: Trace, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The traced value of an operation on values, of which one at least is traced or captured."""
    name = name.strip("_") if name.startswith("__") else name
    if name.startswith("r") and name[1:] in ALIASES | ELEMENTWISE and name not in ELEMENTWISE and len(args) == 2:
        name, args = name[1:], args[::-1]
    name = ALIASES.get(name, name)
    place = here()
    if is_random(name):
        refuse_random(name)
    if name.endswith("_"):
        refuse("not-in-place", f"`{name}` writes in place", f"write `x = x.{name[:-1]}(...)`", place=place)
    if name in ROUNDED:
        refuse_rounding(place)
    if name in SPECIAL:
        return SPECIAL[name](trace, place, *args, **kwargs)
    if name not in ELEMENTWISE:
        refuse_unknown(name)
    return elementwise(trace, place, name, (*args, *(value for key, value in kwargs.items() if key not in ("out", "inplace"))))


def elementwise(trace: Trace, place: Place, name: str, args: tuple) -> Traced:
    """An operation of the table on operands brought to one shape."""
    count = ELEMENTWISE[name][0]
    if len(args) != count:
        refuse("wrong-argument-count", f"`{name}` takes {count} operands here, {len(args)} given", place=place)
    operands = [traced(trace, value, place) for value in args]
    shape = common_shape([operand.shape for operand in operands], place)

    def at(indices: Indices) -> Expr:
        exprs = tuple(operand.at(_own(operand, indices)) for operand in operands)
        if name in ("floor_divide", "remainder") and not isinstance(exprs[1], Number):
            trace.captured.bound([exprs[1]], least=1)
        if name in ("lshift", "rshift"):
            trace.captured.bound([exprs[1]], least=0)
        return arithmetic.build(name, trace.ctx, place.span, exprs)

    kinds: tuple[Kind, ...] = tuple(operand.kind for operand in operands)
    return made(trace, place, result_kind(ELEMENTWISE[name][2], kinds[1:] if name == "where" else kinds), shape, at)


def common_shape(shapes: list[tuple[int, ...]], place: Place) -> tuple[int, ...]:
    """The shape that all are stretched to."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        listed = " and ".join(map(str, shapes))
        refuse("shapes-differ", f"shapes {listed} do not match", "index the axes of which one element is wanted", place=place)


def made(trace: Trace, place: Place, kind: Any, shape: tuple[int, ...], at: Callable[[Indices], Expr]) -> Traced:
    """A grid; one without axes is worked out at once, under the name of its variable."""
    if shape:
        return Traced(trace, kind, shape, at)
    expr = trace.labelled(at(()), place)
    return Traced(trace, expr.kind, (), lambda indices: expr)


def traced(trace: Trace, value: Any, place: Place) -> Traced:
    """A value as a traced one: a Python number, a captured tensor, or one that the function made."""
    if isinstance(value, Traced):
        return value
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, bool):
        return constant(trace, Truth(value, place.span))
    if isinstance(value, int | float):
        return constant(trace, trace.number(value, place))
    if isinstance(value, torch.Tensor):
        return tensor(trace, value, place)
    refuse("not-a-number", f"a number or a tensor is wanted, not {type(value).__name__}", place=place)


def constant(trace: Trace, expr: Expr) -> Traced:
    """A grid of one expression."""
    return Traced(trace, expr.kind, (), lambda indices: expr)


def tensor(trace: Trace, value: torch.Tensor, place: Place) -> Traced:
    """A captured tensor, its elements read where they are wanted; one that the function made of numbers is those numbers."""
    if id(value) in trace.made and not value.dim():
        with trace.aside():
            return traced(trace, value.item(), place)
    name = place.name_of(value) or "tensor"
    kind: Any = trace.captured.kind_of(value, place)
    learned = not trace.in_mask

    def at(indices: Indices) -> Expr:
        return trace.captured.element(value, indices, name, learned, place)

    return Traced(trace, kind, tuple(value.shape), at)


def _own(operand: Traced, indices: Indices) -> Indices:
    """Indices of the whole as those of an operand that is stretched to it."""
    own = indices[len(indices) - len(operand.shape) :]
    return tuple(index if size > 1 else Number(0, "int") for size, index in zip(operand.shape, own, strict=True))


# Operations with arguments of their own.


def cast(trace: Trace, place: Place, value: Any, *args: Any, **kwargs: Any) -> Any:
    """`.to(...)`: of a kind of number; places mean nothing here."""
    wanted = next((item for item in (*args, kwargs.get("dtype")) if isinstance(item, torch.dtype)), None)
    like = next((item for item in (*args, kwargs.get("other")) if isinstance(item, torch.Tensor | Traced)), None)
    wanted = like.dtype if wanted is None and like is not None else wanted
    if wanted is None:
        return traced(trace, value, place)
    if wanted in (torch.float16, torch.bfloat16):
        refuse_rounding(place)
    name = "bool" if wanted == torch.bool else "float" if wanted.is_floating_point else "int"
    return elementwise(trace, place, name, (value,))


def refuse_rounding(place: Place) -> NoReturn:
    """Scores are f32 throughout."""
    help = "leave the conversion out: scores are f32 from q . k to the softmax"
    refuse("unknown-type", "a conversion to 16 bits would round, which the language cannot say", help, place=place)


def clamp(trace: Trace, place: Place, value: Any, min: Any = None, max: Any = None) -> Any:
    """Between two ends, either left out."""
    value = traced(trace, value, place)
    if min is not None:
        value = elementwise(trace, place if max is None else place.inner, "maximum", (value, min))
    return value if max is None else elementwise(trace, place, "minimum", (value, max))


def divide(trace: Trace, place: Place, one: Any, other: Any, rounding_mode: str | None = None, **_: Any) -> Any:
    """`torch.div`."""
    if rounding_mode == "floor":
        return elementwise(trace, place, "floor_divide", (one, other))
    if rounding_mode is None:
        return elementwise(trace, place, "div", (one, other))
    found = elementwise(trace, place.inner, "div", (one, other))
    return elementwise(trace, place, "int", (found,))


def add(sign: str) -> Callable[..., Any]:
    """`torch.add` and `torch.sub`, whose second operand may have a factor."""

    def build(trace: Trace, place: Place, one: Any, other: Any, alpha: Any = 1, **_: Any) -> Any:
        other = other if alpha == 1 else elementwise(trace, place.inner, "mul", (other, alpha))
        return elementwise(trace, place, sign, (one, other))

    return build


def lerp(trace: Trace, place: Place, start: Any, end: Any, weight: Any) -> Any:
    """`start + weight (end - start)`."""
    way = elementwise(trace, place.inner, "sub", (end, start))
    return elementwise(trace, place, "add", (start, elementwise(trace, place.inner, "mul", (weight, way))))


def masked_fill(trace: Trace, place: Place, value: Any, mask: Any, fill: Any) -> Any:
    """A number where a condition holds."""
    return elementwise(trace, place, "where", (mask, fill, value))


def gelu(trace: Trace, place: Place, value: Any, approximate: str = "none") -> Any:
    """The form by tanh alone."""
    if approximate != "tanh":
        refuse_unknown("gelu")
    return elementwise(trace, place, "gelu_tanh", (value,))


def softplus(trace: Trace, place: Place, value: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta x)) / beta; past the threshold, where torch switches to x, both are equal in f32."""
    inner = elementwise(trace, place.inner, "mul", (value, beta))
    found = elementwise(trace, place if beta == 1 else place.inner, "softplus", (inner,))
    return found if beta == 1 else elementwise(trace, place, "div", (found, beta))


def leaky_relu(trace: Trace, place: Place, value: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """A slope below 0."""
    below = elementwise(trace, place.inner, "mul", (value, negative_slope))
    return elementwise(trace, place, "where", (elementwise(trace, place.inner, "gt", (value, 0)), value, below))


def filled(number: float | None) -> Callable[..., Any]:
    """`new_ones`, `zeros_like` and their like: a constant of the kind asked for, or of the value at hand."""

    def build(trace: Trace, place: Place, like: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        fill = kwargs.get("fill_value", kwargs.get("data", args[-1] if args else None)) if number is None else number
        kind = traced(trace, like, place).dtype if dtype is None else dtype
        return cast(trace, place, fill, dtype=kind)

    return build


def same(trace: Trace, place: Place, value: Any, *args: Any, **kwargs: Any) -> Any:
    """What leaves a value as it is."""
    return traced(trace, value, place)


def most_or_least(name: str) -> Callable[..., Any]:
    """`torch.max` and `torch.min`: of two tensors, or of all elements of one."""

    def build(trace: Trace, place: Place, value: Any, other: Any = None, dim: Any = None, **_: Any) -> Any:
        if isinstance(other, torch.Tensor | Traced):
            return elementwise(trace, place, f"{name}imum", (value, other))
        if other is None and dim is None:
            return of_all(f"{name}_of")(trace, place, value)
        refuse("unknown-function", f"`{name}` along an axis also gives indices", f"write `a{name}`", place=place)

    return build


def needs_a_number(name: str) -> Callable[..., NoReturn]:
    """A method that gives Python a number."""
    return lambda trace, place, *args, **kwargs: refuse_value(f"`.{name}()`", "leave it out")


def on_grid(change: Callable[..., Any]) -> Callable[..., Any]:
    """A change of the axes of its first argument."""

    def build(trace: Trace, place: Place, value: Any, *args: Any, **kwargs: Any) -> Any:
        found = change(traced(trace, value, place), *args, **kwargs)
        return found if found.shape else made(trace, place, found.kind, (), found.at)

    return build


def index(trace: Trace, place: Place, value: Any, indices: Any) -> Any:
    """`x[i, j]`."""
    given = indices if isinstance(indices, tuple) else (indices,)
    made_of = tuple(traced(trace, at, place) if isinstance(at, torch.Tensor | int) else at for at in given)
    found = getitem(traced(trace, value, place), made_of)
    return found if found.shape else made(trace, place, found.kind, (), found.at)


def product(trace: Trace, place: Place, one: Any, other: Any) -> Any:
    """`torch.dot` of two vectors, written out."""
    return dot(trace, place, traced(trace, one, place), traced(trace, other, place))


def of_all(name: str) -> Callable[..., Any]:
    """A reduction."""

    def build(trace: Trace, place: Place, value: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        found = reduce(trace, place, name, traced(trace, value, place), dim, keepdim)
        return found if found.shape else made(trace, place, found.kind, (), found.at)

    return build


SPECIAL: dict[str, Callable[..., Any]] = {
    "getitem": index,
    "to": cast,
    "clamp": clamp,
    "clamp_min": lambda trace, place, value, low: clamp(trace, place, value, low),
    "clamp_max": lambda trace, place, value, high: clamp(trace, place, value, None, high),
    "div": divide,
    "add": add("add"),
    "sub": add("sub"),
    "rsub": lambda trace, place, one, other: elementwise(trace, place, "sub", (other, one)),
    "lerp": lerp,
    "masked_fill": masked_fill,
    "gelu": gelu,
    "softplus": softplus,
    "leaky_relu": leaky_relu,
    "new_ones": filled(1),
    "ones_like": filled(1),
    "new_zeros": filled(0),
    "zeros_like": filled(0),
    "new_full": filled(None),
    "full_like": filled(None),
    "new_tensor": filled(None),
    "contiguous": same,
    "clone": same,
    "cpu": same,
    "cuda": same,
    "max": most_or_least("max"),
    "min": most_or_least("min"),
    "item": needs_a_number("item"),
    "unsqueeze": on_grid(unsqueeze),
    "squeeze": on_grid(squeeze),
    "transpose": on_grid(transpose),
    "dot": product,
    **{name: of_all(name) for name in ("any", "all", "sum", "max_of", "min_of")},
}
