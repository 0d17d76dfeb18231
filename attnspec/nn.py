"""A variant as a layer: a module that owns the tensors that are learned."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnspec.api import build
from attnspec.errors import ArgumentError
from attnspec.initial import initial_values
from attnspec.language.expr import names
from attnspec.language.spec import Spec
from attnspec.language.spec import Tensor as Declared
from attnspec.runtime.arguments import DTYPES, check_heads
from attnspec.runtime.declared import declaration
from attnspec.runtime.integers import extent_at

Start = Tensor | float | Callable[[Tensor], object]


class Attention(torch.nn.Module):
    """A variant with its learned tensors as parameters, under their names in the file.

    spec, target, on, constants: as of `attnspec.build`. heads: query heads, for shapes that name them; kv_heads: heads over the
    declared group, or heads, if not given. len_q, len_kv: for tables of a fixed length. A learned tensor whose shape names a size
    that is not given, and `batch` never is, is no parameter: it comes with each call, as `input` tensors do.
    initial: by name, how a parameter starts: a tensor, a number, or a function that fills it (such as torch.nn.init.zeros_).
    Without one it starts as `attnspec.initial` says. dtype: of the parameters, if not the declared ones; bf16 and fp16 are taken
    for f32. ArgumentError for what does not fit.
    """

    def __init__(
        self,
        spec: str | os.PathLike[str] | Spec,
        *,
        heads: int | None = None,
        kv_heads: int | None = None,
        len_q: int | None = None,
        len_kv: int | None = None,
        initial: Mapping[str, Start] | None = None,
        target: str | None = None,
        on: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **constants: int | float,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = constants
        self._attention = build(spec, target=target, on=on, **options)
        self._initial = dict(initial or {})
        if isinstance(heads, int) and kv_heads is None:
            kv_heads = heads // (self._attention.spec.group or 1)
        given = {"heads": heads, "kv_heads": kv_heads, "len_q": len_q, "len_kv": len_kv}
        self._sizes = {name: size for name, size in given.items() if size is not None}
        self._check_sizes()
        owned = [tensor for tensor in self._attention.spec.learned if self._is_owned(tensor)]
        self._owned = tuple(tensor.name for tensor in owned)
        for name in self._initial:
            if name not in self._owned:
                raise ArgumentError(f"initial: {name!r} is no parameter; there are {', '.join(self._owned) or 'none'}")
        for tensor in owned:
            self._add(tensor, device, dtype)
        self.reset_parameters()

    def _check_sizes(self) -> None:
        """ArgumentError for sizes that no call could have."""
        for name, size in self._sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ArgumentError(f"{name}: {size!r}, wanted a whole number from 1 up, or None")
        heads, kv_heads = self._sizes.get("heads"), self._sizes.get("kv_heads")
        if heads is not None and kv_heads is not None:
            check_heads(self._attention.spec, heads, kv_heads)

    def _is_owned(self, tensor: Declared) -> bool:
        """Whether all sizes of its shape are known; heads have to be."""
        wanted = set().union(*(names(extent) for extent in tensor.shape))
        for name in ("heads", "kv_heads"):
            if name in wanted and name not in self._sizes:
                found = f"learned {tensor.name}: {declaration(tensor)}"
                raise ArgumentError(f"heads: missing: `{found}` needs the number of heads: nn.Attention(..., heads=...)")
        return wanted <= self._sizes.keys()

    def _add(self, tensor: Declared, device: Any, dtype: torch.dtype | None) -> None:
        """A parameter of the declared shape."""
        if hasattr(self, tensor.name):
            raise ArgumentError(f"{tensor.name}: a torch module has an attribute of this name; name the tensor otherwise")
        shape = [extent_at(extent, self._sizes) for extent in tensor.shape]
        empty = torch.empty(shape, device=device, dtype=dtype or DTYPES[tensor.dtype])
        self.register_parameter(tensor.name, torch.nn.Parameter(empty))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Every parameter as at the start."""
        for name in self._owned:
            parameter = self.get_parameter(name)
            start = self._initial.get(name, initial_values(self._attention.analysed, name))
            if callable(start):
                start(parameter)
                continue
            try:
                parameter.copy_(torch.as_tensor(start).expand_as(parameter))
            except (TypeError, ValueError, RuntimeError):
                found = f"shape {tuple(start.shape)}" if isinstance(start, Tensor) else repr(start)
                wanted = f"a number, a function, or a tensor that broadcasts to {tuple(parameter.shape)}"
                raise ArgumentError(f"initial: {name!r}: {found}, wanted {wanted}") from None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Any:
        """As of `attnspec.Attention`: `input` tensors, `return_lse` and the like by keyword. A parameter that is given by keyword
        is taken instead of the module's own.
        """
        for name in self._owned:
            if name not in keywords:
                keywords[name] = getattr(self, name)
        return self._attention(q, k, v, **keywords)

    @property
    def spec(self) -> Spec:
        """The checked spec."""
        return self._attention.spec

    def extra_repr(self) -> str:
        """The variant and what was given of sizes."""
        spec = self._attention.spec
        width = str(spec.head_dim) if spec.head_dim == spec.head_dim_v else f"({spec.head_dim}, {spec.head_dim_v})"
        sizes = [f"{name}={size}" for name, size in self._sizes.items()]
        learned = [f"{name}={tuple(self.get_parameter(name).shape)}" for name in self._owned]
        return ", ".join([spec.name, f"head_dim={width}", spec.dtype, *sizes, *learned])
