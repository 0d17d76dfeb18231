"""FlexAttention's functions to a spec: traced, assembled, and read back from the text that they print as."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import sqrt
from typing import Any

import torch

from attnspec.errors import ArgumentError
from attnspec.flex.arithmetic import Build
from attnspec.flex.mode import run
from attnspec.flex.names import clean
from attnspec.flex.place import Place, here, place_of, short_place
from attnspec.flex.refuse import refuse
from attnspec.flex.trace import Trace
from attnspec.flex.traced import Traced
from attnspec.language.check import check
from attnspec.language.diagnostics import InternalError
from attnspec.language.expr import Convert, Expr, Kind, Name, Number, Truth, children, nodes, tensors_read, with_children
from attnspec.language.hidden import hidden_by
from attnspec.language.parse import parse
from attnspec.language.show import show
from attnspec.language.spec import DType, Spec

ScoreMod = Callable[..., Any]  # (score, b, h, q_idx, kv_idx) -> score
MaskMod = Callable[..., Any]  # (b, h, q_idx, kv_idx) -> visible
DTYPES: dict[Any, DType] = {"bf16": "bf16", "fp16": "fp16", torch.bfloat16: "bf16", torch.float16: "fp16"}
ARGUMENTS = {"score_mod": ("score", "b", "h", "q_idx", "kv_idx"), "mask_mod": ("b", "h", "q_idx", "kv_idx")}
INDICES = ("b", "h", "q", "kv")


@dataclass(frozen=True)
class FlexVariant:
    """What FlexAttention's functions mean. spec: for `attnspec.build`. captured: tensors by their declared names."""

    spec: Spec
    captured: Mapping[str, torch.Tensor] = field(repr=False)

    @property
    def text(self) -> str:
        """The `.attn` file that says the same."""
        return self.spec.source.text

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """What a call of the built variant takes by keyword: the captured tensors as they are now."""
        return {name: _passed(tensor) for name, tensor in self.captured.items()}


def from_flex(
    score_mod: ScoreMod | None = None,
    mask_mod: MaskMod | None = None,
    *,
    head_dim: int | tuple[int, int],
    group: int | None = None,
    dtype: str | torch.dtype = "bf16",
    scale: float | None = None,
    name: str | None = None,
    batch: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    len_q: int | None = None,
    len_kv: int | None = None,
) -> FlexVariant:
    """The variant that `flex_attention(q, k, v, score_mod, create_block_mask(mask_mod, ...))` computes.

    The functions are called once, with values that record what is done to them: no kernel runs. Tensors that they captured
    are declared, `learned` where they require a gradient and the score uses them. head_dim: of q and k, or of those and of v.
    group: query heads per key/value head; None takes it from the tensors. batch, heads, kv_heads, len_q, len_kv: sizes of
    the calls to come, by which axes of captured tensors are recognised; without them an axis that is indexed by a position
    alone has that position's size. SpecError, with the place in the Python source, for what the language cannot say.
    """
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "len_q": len_q, "len_kv": len_kv}
    for what, function in (("score_mod", score_mod), ("mask_mod", mask_mod)):
        if function is not None and not callable(function):
            raise ArgumentError(f"{what}: a function is wanted, got {type(function).__name__}")
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype: {dtype!r}, wanted 'bf16' or 'fp16': what q, k, v and the output are")
    trace = Trace(sizes)
    score = _score(trace, score_mod)
    mask = _mask(trace, mask_mod)
    widths = head_dim if isinstance(head_dim, tuple) else (head_dim, head_dim)
    spec = Spec(
        name=clean(name or "_".join(_name_of(function) for function in (score_mod, mask_mod) if function is not None)),
        head_dim=widths[0],
        head_dim_v=widths[1],
        group=group,
        dtype=DTYPES[dtype],
        scale=Number(1 / sqrt(widths[0]) if scale is None else float(scale), "float"),
        is_varlen=False,
        constants=(),
        tensors=(),
        score=score,
        mask=mask,
        sink=None,
    )
    spec = _with_declarations(trace, _with_shared_parts(trace, spec))
    return FlexVariant(_read_back(spec, (score_mod, mask_mod)), _captured(trace, spec))


def _score(trace: Trace, score_mod: ScoreMod | None) -> Expr:
    """The score that a function gives."""
    given = Name("score", "float")
    if score_mod is None:
        return given
    found = _run(trace, score_mod, (_value(trace, "score", "float"), *_indices(trace)), "score_mod")
    return Build(trace.ctx, place_of(score_mod).span).as_float(found)


def _mask(trace: Trace, mask_mod: MaskMod | None) -> Expr | None:
    """The mask that a function gives; None where every key is visible."""
    if mask_mod is None:
        return None
    trace.in_mask = True
    found = _run(trace, mask_mod, _indices(trace), "mask_mod")
    if found.kind == "float":
        help = "compare it with something; what is added to scores belongs into a score_mod"
        refuse("kind-mismatch", "a mask_mod returns a condition, not a float", help, place=place_of(mask_mod))
    mask = Build(trace.ctx, place_of(mask_mod).span).as_bool(found)
    hidden = hidden_by(mask, trace.ctx.ranges)
    if hidden is not None:
        help = "each row would be empty; check signs, and which side of the query the window lies on"
        refuse("mask-hides-every-key", "this mask is false for every key", help, place=Place(hidden.span))
    return None if isinstance(mask, Truth) else mask


def _run(trace: Trace, function: Callable[..., Any], arguments: tuple[Traced, ...], what: str) -> Expr:
    """The expression that a function returns."""
    refuse_arity(function, what)
    found = run(trace, function, arguments)
    if isinstance(found, bool | int | float | torch.Tensor):
        from attnspec.flex.operations import traced

        found = traced(trace, found, here())
    place = place_of(function)
    if not isinstance(found, Traced):
        message = f"this {what} returns {type(found).__name__}, not a value"
        refuse("returns-no-value", message, "end it with `return ...`", place=place)
    if found.shape:
        message = f"this {what} returns a tensor of shape {found.shape}, not one value"
        refuse("returns-no-value", message, "index it, or join it with `.any()` or `.sum()`", place=place)
    return found.expr


def refuse_arity(function: Callable[..., Any], what: str) -> None:
    """ArgumentError for a function that cannot be called with what FlexAttention calls it with."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # none is to be had of some functions that are not Python's
        return
    if _takes(signature, len(ARGUMENTS[what])):
        return
    other = "mask_mod" if what == "score_mod" else "score_mod"
    wanted = f"a {what} is called with ({', '.join(ARGUMENTS[what])})"
    hint = f"; as a {other} it would fit" if _takes(signature, len(ARGUMENTS[other])) else ""
    raise ArgumentError(f"{what}: `{_name_of(function)}` takes {signature}, but {wanted}{hint}")


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _indices(trace: Trace) -> tuple[Traced, ...]:
    return tuple(_value(trace, name, "int") for name in INDICES)


def _value(trace: Trace, name: str, kind: Kind) -> Traced:
    expr = Name(name, kind)
    return Traced(trace, kind, (), lambda indices: expr)


def _with_shared_parts(trace: Trace, spec: Spec) -> Spec:
    """The spec with a name for every larger part that stands in two places and has none."""
    roots = [expr for expr in (spec.score, spec.mask) if expr is not None]
    users = Counter(child for at in dict.fromkeys(at for root in roots for at in nodes(root)) for child in children(at))
    shared = {at for at, count in users.items() if count > 1 and _is_large(at)}
    done: dict[int, Expr] = {}  # by identity: equal numbers may stand under different names

    def visit(at: Expr) -> Expr:
        if id(at) not in done:
            found = with_children(at, tuple(visit(child) for child in children(at)))
            if at in shared and at.label is None:
                if at not in trace.labels:
                    trace.labels[at] = trace.names.fresh("part")
                found = replace(found, label=trace.labels[at])
            done[id(at)] = found
        return done[id(at)]

    return replace(spec, score=visit(spec.score), mask=None if spec.mask is None else visit(spec.mask))


def _is_large(expr: Expr) -> bool:
    """Whether an expression is worth a name."""
    return not isinstance(expr, Convert) and len(tuple(nodes(expr))) > 5


def _with_declarations(trace: Trace, spec: Spec) -> Spec:
    """The spec with the tensors and constants that its expressions still use."""
    roots = [expr for expr in (spec.score, spec.mask) if expr is not None]
    used = frozenset[str]().union(*map(tensors_read, roots))
    labels = frozenset[str | None]().union(*map(_labels, roots))
    tensors = tuple(tensor for name, tensor in trace.ctx.tensors.items() if name in used)
    return replace(spec, constants=trace.names.used(labels), tensors=tensors)


def _labels(root: Expr) -> set[str | None]:
    """Names that numbers stand under; equal numbers may have different ones."""
    seen, waiting, found = set[int](), [root], set[str | None]()
    while waiting:
        at = waiting.pop()
        if id(at) not in seen:
            seen.add(id(at))
            waiting += children(at)
            found |= {at.label} if isinstance(at, Number) else set()
    return found


def _captured(trace: Trace, spec: Spec) -> dict[str, torch.Tensor]:
    return {tensor.name: trace.captured.tensors[tensor.name] for tensor in spec.tensors}


def _read_back(spec: Spec, functions: tuple[Any, ...]) -> Spec:
    """The spec as read from its own text, so that every later stage shows a file that can be kept."""
    notes = [f"{_name_of(function)} ({short_place(function)})" for function in functions if function is not None]
    origin = "".join(char if char.isprintable() else " " for char in ", ".join(notes) or "nothing: plain attention")
    text = f"# Traced from {origin}\n{show(spec)}"
    found = check(parse(text, f"<{spec.name}.attn>"))
    if found != spec:
        raise InternalError(f"the text of a traced variant does not say what was traced:\n{text}")
    return found


def _name_of(function: Any) -> str:
    """What a function is called."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "flex" if name == "<lambda>" else name


def _passed(tensor: torch.Tensor) -> torch.Tensor:
    """A captured tensor as a call takes it: f32 for f64, and without gaps in its last axis."""
    tensor = tensor.float() if tensor.dtype == torch.float64 else tensor
    return tensor.contiguous() if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1 else tensor
