"""Elements of declared tensors: every index proved to lie inside its extent."""

from attnspec.language.context import Context
from attnspec.language.expr import Expr, Name, Read, nodes
from attnspec.language.limits import MAX_DEPTH
from attnspec.language.linear import Linear, show_linear
from attnspec.language.names import read_kind
from attnspec.language.source import Span
from attnspec.language.spec import Tensor
from attnspec.language.values import FAULTY, KIND_WORDS, Value
from attnspec.language.whole_tensor import count_axes, example_read, example_shape


def read(ctx: Context, tensor: Tensor, indices: tuple[Expr, ...], span: Span) -> Value:
    """`tensor[indices]`, if each index is an integer proved to be inside."""
    if not tensor.shape:
        help = f"declare its shape, `{example_shape(tensor, indices)}`, or write `{tensor.name}` alone"
        ctx.faults.add("scalar-indexed", f"`{tensor.name}` is declared without a shape: it is one number", span, help=help)
        return FAULTY
    if len(indices) != len(tensor.shape):
        count = f"{len(indices)} {'index' if len(indices) == 1 else 'indices'}"
        message = f"`{tensor.name}` has {count_axes(tensor)}, {count} given"
        ctx.faults.add("wrong-index-count", message, span, help=f"for example `{example_read(tensor)}`")
        return FAULTY
    # Both lists are walked whole, so that two bad indices give two faults.
    inside = [_is_inside(ctx, tensor, axis, index) for axis, index in enumerate(indices)]
    if not all(inside):
        return FAULTY
    return ctx.measured(Read(tensor.name, indices, read_kind(tensor), span))


def _is_inside(ctx: Context, tensor: Tensor, axis: int, index: Expr) -> bool:
    if index.kind != "int":
        help = "make it one: `floor(x)`" if index.kind == "float" else "make it one: `1 if ... else 0`"
        message = f"an index of `{tensor.name}` is {KIND_WORDS[index.kind]}, not an integer"
        ctx.faults.add("index-not-integer", message, index.span, help=help)
        return False
    extent = ctx.ranges.form(tensor.shape[axis])
    if extent is None:
        return False  # the declaration is at fault, and said so
    found = ctx.ranges.of(index)
    if found.is_at_least(Linear(0)) and found.is_at_most(extent.plus(-1)):
        return True
    last = show_linear(extent.plus(-1))
    message = f"axis {axis} of `{tensor.name}` takes 0 .. {last}, and this index may leave it"
    note = f"lies in {ctx.ranges.show(index)}"
    ctx.faults.add("index-may-leave-extent", message, index.span, note, _advice(ctx, tensor, axis, index, last))
    return False


def _advice(ctx: Context, tensor: Tensor, axis: int, index: Expr, last: str) -> str:
    text = index.span.source.text[index.span.start : index.span.end]
    clamp = f"clamp({text}, 0, {last})" if len(text) <= MAX_DEPTH // 4 and "\n" not in text else f"clamp(..., 0, {last})"
    unbounded = [
        at.tensor
        for at in nodes(index)
        if isinstance(at, Read) and ctx.tensors[at.tensor].low is None and ctx.tensors[at.tensor].dtype == "i32"
    ]
    if unbounded:
        return f"declare the range of `{unbounded[0]}`: `in 0..{last}`; or clamp it: `{clamp}`"
    size = tensor.shape[axis]
    wanted = {"batch": "b", "heads": "h", "kv_heads": "hkv", "len_q": "q", "len_kv": "kv"}
    if isinstance(size, Name) and isinstance(index, Name):
        return f"this axis has `{size.name}` elements: index it with `{wanted[size.name]}`, or clamp it: `{clamp}`"
    return f"clamp it: `{clamp}`"
