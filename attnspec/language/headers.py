"""`attention`, `head_dim`, `group`, `dtype`, `varlen`: what a file says of itself, in any order but the first."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

from attnspec.language import syntax
from attnspec.language.faults import Faults
from attnspec.language.limits import MAX_HEADS, MAX_NAME
from attnspec.language.source import Span
from attnspec.language.spec import DType
from attnspec.language.suggest import did_you_mean

SMALLEST_WIDTH, LARGEST_WIDTH, WIDTH_STEP = 8, 256, 8
ELEMENT_TYPES = ("bf16", "fp16")
ONCE = {
    syntax.Attention: "attention",
    syntax.HeadDim: "head_dim",
    syntax.Group: "group",
    syntax.ElementType: "dtype",
    syntax.Scale: "scale",
    syntax.Varlen: "varlen",
    syntax.Mask: "mask",
    syntax.Sink: "sink",
}
_S = TypeVar("_S")


@dataclass(frozen=True)
class Header:
    """What the header statements say; head_dim is 0 where the file is faulty."""

    name: str
    head_dim: int
    head_dim_v: int
    group: int | None
    dtype: DType
    is_varlen: bool


def read_header(tree: syntax.Tree, faults: Faults) -> Header:
    """The header of a file; faults for what is missing, said twice, or out of range."""
    statements = tree.statements
    end = len(tree.source.text.rstrip())
    first = statements[0] if statements else None
    attention = _only(statements, syntax.Attention)
    if not isinstance(first, syntax.Attention):
        span = first.span if first is not None else Span(tree.source, 0, 1)
        faults.add("attention-not-first", "a file starts with `attention NAME`", span, help="give the variant a name")
    elif len(first.name.text) > MAX_NAME:
        faults.add("name-too-long", f"a name may have {MAX_NAME} characters at most", first.name.span)
    _refuse_repeats(statements, faults)
    widths = _only(statements, syntax.HeadDim)
    if widths is None:
        span = first.span if first is not None else Span(tree.source, end, end + 1)
        faults.add("missing-statement", "this file has no `head_dim`", span, help="add a line such as `head_dim 128`")
    query = _width(widths.query, "head_dim", faults) if widths else 0
    value = _width(widths.value, "the value width", faults) if widths and widths.value else query
    return Header(
        attention.name.text if attention else "",
        query,
        value,
        _group(_only(statements, syntax.Group), faults),
        _element_type(_only(statements, syntax.ElementType), faults),
        _only(statements, syntax.Varlen) is not None,
    )


def _only(statements: Iterable[syntax.Statement], kind: type[_S]) -> _S | None:
    return next((item for item in statements if isinstance(item, kind)), None)


def _refuse_repeats(statements: Iterable[syntax.Statement], faults: Faults) -> None:
    seen: dict[type, Span] = {}
    for item in statements:
        word = ONCE.get(type(item))
        if word is None:
            continue
        if type(item) in seen:
            help = f"line {seen[type(item)].line} has one already"
            if word == "mask":
                help += "; join conditions with `and`"
            faults.add("duplicate-statement", f"`{word}` may stand once", item.span, help=help)
        seen.setdefault(type(item), item.span)


def _width(written: syntax.Literal, what: str, faults: Faults) -> int:
    width = int(written.value)
    if SMALLEST_WIDTH <= width <= LARGEST_WIDTH and width % WIDTH_STEP == 0:
        return width
    below = max(SMALLEST_WIDTH, min(LARGEST_WIDTH, width // WIDTH_STEP * WIDTH_STEP))
    above = max(SMALLEST_WIDTH, min(LARGEST_WIDTH, -(-width // WIDTH_STEP) * WIDTH_STEP))
    near = f"{below}" if below == above else f"{below} or {above}"
    message = f"{what} must be a multiple of {WIDTH_STEP} in {SMALLEST_WIDTH}..{LARGEST_WIDTH}, not {_short(width)}"
    faults.add("bad-head-dim", message, written.span, help=f"the nearest width is {near}; pad the tensors with zeros")
    return 0


def _short(value: int) -> str:
    return str(value) if value < 2**63 else "that"


def _group(written: syntax.Group | None, faults: Faults) -> int | None:
    if written is None or written.size is None:
        return None
    size = int(written.size.value)
    if not 1 <= size <= MAX_HEADS:
        faults.add("bad-group", f"a group has 1 to {MAX_HEADS} query heads, not {_short(size)}", written.size.span)
        return None
    return size


def _element_type(written: syntax.ElementType | None, faults: Faults) -> DType:
    if written is None:
        return "bf16"
    name = written.name.text
    if name not in ELEMENT_TYPES:
        help = did_you_mean(name, ELEMENT_TYPES) or "write `dtype bf16` or `dtype fp16`"
        faults.add("unknown-type", f"q, k and v are bf16 or fp16, not `{name}`", written.name.span, help=help)
        return "bf16"
    return cast(DType, name)
