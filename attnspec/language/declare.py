"""`input` and `learned`: types, shapes and ranges of run-time tensors."""

from typing import cast, get_args

from attnspec.language import syntax
from attnspec.language.context import Context
from attnspec.language.evaluate import evaluate_expr
from attnspec.language.expr import SIZES, Expr, Name, Number, nodes
from attnspec.language.limits import MAX_RANK
from attnspec.language.linear import INDEX_SIZE
from attnspec.language.names import may_be_given
from attnspec.language.operators import as_float
from attnspec.language.spec import Tensor, TensorDType
from attnspec.language.suggest import did_you_mean
from attnspec.language.values import FAULTY, KIND_WORDS, WholeTensor

DTYPES = get_args(TensorDType)
FLOAT_DTYPES = ("f32", "bf16", "fp16")
VARLEN_SIZES = ("batch", "heads", "kv_heads")


def declare(ctx: Context, statement: syntax.Declare, is_varlen: bool) -> None:
    """Give a tensor's name its declaration; a faulty declaration makes the name faulty."""
    is_new = may_be_given(ctx, statement.name, "call")
    name = statement.name.text
    dtype = _dtype(ctx, statement)
    shape = tuple(_size(ctx, size, is_varlen) for size in statement.shape or ())
    if len(shape) > MAX_RANK:
        ctx.faults.add("too-many-axes", f"a tensor may have {MAX_RANK} axes at most", statement.name.span)
    limits = _limits(ctx, statement, dtype)
    if statement.is_sorted and (dtype != "i32" or not shape):
        ctx.faults.add("not-sortable", "`sorted` is for i32 tensors with an axis", statement.span)
    if not is_new:
        return
    if dtype is None or any(size is None for size in shape):
        ctx.values[name] = FAULTY
        return
    sizes = tuple(size for size in shape if size is not None)
    low, high = limits if limits is not None else (None, None)
    tensor = Tensor(name, dtype, sizes, statement.is_learned, low, high, statement.is_sorted, statement.span)
    ctx.tensors[name] = tensor
    ctx.values[name] = WholeTensor(tensor, statement.name.span)


def _dtype(ctx: Context, statement: syntax.Declare) -> TensorDType | None:
    written = statement.dtype.text
    if written not in DTYPES:
        help = did_you_mean(written, DTYPES) or f"the types are {', '.join(DTYPES)}"
        ctx.faults.add("unknown-type", f"there is no type `{written}`", statement.dtype.span, help=help)
        return None
    if statement.is_learned and written not in FLOAT_DTYPES:
        message = f"a learned tensor receives a gradient, which {written} cannot hold"
        help = f"declare it as `input`, or as one of {', '.join(FLOAT_DTYPES)}"
        ctx.faults.add("learned-not-float", message, statement.dtype.span, help=help)
    return cast(TensorDType, written)


def _size(ctx: Context, written: syntax.SyntaxExpr, is_varlen: bool) -> Expr | None:
    """One axis: an integer expression in size names that is linear, up to `//` by constants."""
    size = evaluate_expr(ctx, written, is_size=True)
    if size is None:
        return None
    if size.kind != "int":
        ctx.faults.add("kind-mismatch", f"a size is an integer, not {KIND_WORDS[size.kind]}", written.span)
        return None
    if not _only_sizes(ctx, size, "a shape"):
        return None
    for at in nodes(size):
        if is_varlen and isinstance(at, Name) and at.name not in VARLEN_SIZES:
            message = f"in a `varlen` file `{at.name}` differs from sequence to sequence, so no shape can use it"
            help = f"use {', '.join(VARLEN_SIZES)} and constants"
            ctx.faults.add("varlen-shape", message, at.span, help=help)
            return None
    form = ctx.ranges.form(size)
    if form is None:
        help = "sizes may be added, multiplied by constants, and divided by constants with `//`"
        ctx.faults.add("shape-not-linear", "this size is not a sum of sizes", written.span, help=help)
        return None
    if not form.terms and form.constant < 1:
        ctx.faults.add("shape-not-positive", f"this size is {form.constant}", written.span, help="a size is at least 1")
        return None
    return size


def _only_sizes(ctx: Context, expr: Expr, what: str) -> bool:
    """Whether an expression rests on sizes and constants alone."""
    for at in nodes(expr):
        used = at.name if isinstance(at, Name) else getattr(at, "tensor", None)
        if used is not None and used not in SIZES:
            meant = INDEX_SIZE.get(used)
            help = f"did you mean `{meant}`?" if meant else f"it may use {', '.join(SIZES)} and constants"
            ctx.faults.add("not-a-size", f"{what} cannot use `{used}`", at.span, help=help)
            return False
    return True


def _limits(ctx: Context, statement: syntax.Declare, dtype: TensorDType | None) -> tuple[Expr, Expr] | None:
    """`in LO..HI`, both ends of the tensor's kind."""
    if statement.limits is None or dtype is None:
        return None
    if dtype == "bool":
        ctx.faults.add("kind-mismatch", "a bool tensor has no range", statement.limits[0].span)
        return None
    ends = [_end(ctx, written, dtype) for written in statement.limits]
    low, high = ends
    if low is None or high is None:
        return None
    if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
        message = f"this range is empty: {low.value} is above {high.value}"
        ctx.faults.add("empty-range", message, statement.limits[0].span, help="write the low end first")
        return None
    return low, high


def _end(ctx: Context, written: syntax.SyntaxExpr, dtype: TensorDType) -> Expr | None:
    end = evaluate_expr(ctx, written, is_size=True)
    if end is None or not _only_sizes(ctx, end, "a range"):
        return None
    wanted = "int" if dtype == "i32" else "float"
    if end.kind == "bool" or (wanted == "int" and end.kind == "float"):
        message = f"a range of {dtype} values has {KIND_WORDS[wanted]} at each end, not {KIND_WORDS[end.kind]}"
        ctx.faults.add("kind-mismatch", message, written.span)
        return None
    return end if wanted == "int" else as_float(ctx, end)
