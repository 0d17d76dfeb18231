"""What stands for a tensor while a function is traced: a grid of expressions, mostly of no axes and so one expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from attnspec.flex.refuse import refuse, refuse_branch, refuse_value
from attnspec.language.expr import Expr, Kind

if TYPE_CHECKING:
    from attnspec.flex.trace import Trace

Indices = tuple[Expr, ...]
DTYPES: dict[Kind, torch.dtype] = {"int": torch.int32, "float": torch.float32, "bool": torch.bool}
REFLECTED = ("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rand", "ror", "rxor", "rlshift", "rrshift")
BINARY = (*(name[1:] for name in REFLECTED), "lt", "le", "gt", "ge", "eq", "ne")
UNARY = ("neg", "pos", "invert", "abs")


@dataclass(frozen=True, eq=False)
class Traced:
    """at: the expression at some indices, one an axis. Torch's functions and methods go to the table of operations."""

    trace: Trace
    kind: Kind
    shape: tuple[int, ...]
    at: Callable[[Indices], Expr]

    __array_ufunc__ = None  # numpy's scalars leave operators to this class

    @property
    def expr(self) -> Expr:
        """The one expression of a grid without axes."""
        return self.at(())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """A function of torch that took a traced value in a list, where no mode saw it."""
        from attnspec.flex.calls import call

        return call(_trace_in((args, kwargs)), func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        from attnspec.flex.operations import is_known, operate, refuse_unknown

        if name.startswith("__"):
            raise AttributeError(name)
        if is_known(name):
            return lambda *args, **kwargs: operate(self.trace, name, (self, *args), kwargs)
        refuse_unknown(name)

    def __getitem__(self, index: Any) -> Any:
        from attnspec.flex.operations import operate

        return operate(self.trace, "getitem", (self, index), {})

    # What a tensor tells of itself.

    @property
    def dtype(self) -> torch.dtype:
        """As FlexAttention has it: scores are f32, indices int32."""
        return DTYPES[self.kind]

    @property
    def device(self) -> torch.device:
        """Of no weight here: nothing is computed."""
        return torch.device("cpu")

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def requires_grad(self) -> bool:
        """No one has to know."""
        return False

    def dim(self) -> int:
        """Axes."""
        return len(self.shape)

    def size(self, axis: int | None = None) -> Any:
        """The shape, or one extent."""
        return torch.Size(self.shape) if axis is None else self.shape[axis]

    def numel(self) -> int:
        """Elements."""
        return torch.Size(self.shape).numel()

    def is_floating_point(self) -> bool:
        """Whether it is a float."""
        return self.kind == "float"

    # What has no answer that holds for every element.

    def __bool__(self) -> bool:
        refuse_branch()

    def __int__(self) -> int:
        refuse_value("`int`", "keep it a tensor: `.int()` or `.to(torch.int32)`")

    def __float__(self) -> float:
        refuse_value("a Python float", "use torch's functions, such as `torch.exp`, not those of `math`; or `.float()`")

    def __index__(self) -> int:
        refuse_value("a Python index, a range or a list's element", "make what is indexed a tensor")

    def __hash__(self) -> int:
        refuse_value("a key of a dict or a set", "look it up in a tensor")

    def __len__(self) -> int:
        if not self.shape:
            refuse_value("`len`", "sizes are Python numbers that you capture")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.shape:
            refuse_value("a loop", "loop over `range(n)` with a fixed n")
        return iter([self[index] for index in range(self.shape[0])])

    def __contains__(self, item: Any) -> bool:
        refuse_branch()

    def __setitem__(self, index: Any, value: Any) -> None:
        refuse("not-in-place", "a traced value cannot be written to", "compute a new one: `torch.where(condition, new, old)`")

    def __floor__(self) -> Any:
        return self.__getattr__("floor")()

    def __ceil__(self) -> Any:
        return self.__getattr__("ceil")()

    def __trunc__(self) -> Any:
        return self.__getattr__("trunc")()

    def __round__(self, digits: int | None = None) -> Any:
        return self.__getattr__("round")()

    def item(self) -> NoReturn:
        """Refused."""
        refuse_value("`.item()`", "leave it out: a traced value is used like a number")

    def tolist(self) -> NoReturn:
        """Refused."""
        refuse_value("`.tolist()`", "leave it out: a traced value is used like a number")

    def numpy(self) -> NoReturn:
        """Refused."""
        refuse_value("`.numpy()`", "use torch's functions")


def _trace_in(found: Any) -> Trace:
    """The tracing that an argument belongs to, in lists too."""
    if isinstance(found, Traced):
        return found.trace
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, list | tuple) else ()
    for item in inside:
        trace = _trace_in(item)
        if trace is not None:
            return trace
    return None  # type: ignore[return-value]


def _operator(name: str) -> Callable[..., Any]:
    def method(self: Traced, *others: Any) -> Any:
        from attnspec.flex.operations import operate

        return operate(self.trace, name, (self, *others), {})

    return method


for _name in (*REFLECTED, *BINARY, *UNARY):
    setattr(Traced, f"__{_name}__", _operator(_name))
Traced.__matmul__ = _operator("dot")  # type: ignore[attr-defined]
