"""What names stand for, and which may be given."""

from keyword import kwlist

from attnspec.language.context import Context, Frame
from attnspec.language.expr import FLOATS, INDICES, SIZES, TILE_NAMES, Binary, Kind, Name, Number, Read
from attnspec.language.functions import BUILTINS
from attnspec.language.limits import MAX_NAME
from attnspec.language.parse import STATEMENTS
from attnspec.language.source import Span
from attnspec.language.spec import Tensor
from attnspec.language.suggest import did_you_mean
from attnspec.language.syntax import Def, Word
from attnspec.language.values import FAULTY, Faulty, Value, WholeTensor

# Keywords of a built variant's call and of `attnspec.build`, beside which tensors and constants are passed by name.
CALL_WORDS = frozenset(
    ("q", "k", "v", "return_lse", "deterministic", "cu_seqlens_q", "cu_seqlens_kv", "q_offset", "kv_offset", "len_q", "len_kv")
)
BUILD_WORDS = frozenset(("target", "on", "splits", "ctas", "query_tiles"))
GIVEN = (*INDICES, *SIZES, *FLOATS, "qpos", "inf")
RESERVED = frozenset((*GIVEN, *TILE_NAMES, *BUILTINS, *STATEMENTS))


def given(ctx: Context, name: str, span: Span) -> Value | None:
    """The value of a name that every file has; None for another name."""
    if name == "score":
        return Name("score", "float", span) if isinstance(ctx.score, Name) else ctx.score
    if name == "scale":
        return Name("scale", "float", span)
    if name == "inf":
        return Number(float("inf"), "float", span)
    if name == "qpos":
        size_q, size_kv = Name("len_q", "int", span), Name("len_kv", "int", span)
        offset = Binary("-", size_kv, size_q, "int", span)
        return ctx.measured(Binary("+", Name("q", "int", span), offset, "int", span, label="qpos"))
    return Name(name, "int", span) if name in INDICES or name in SIZES else None


def tensor_value(tensor: Tensor, span: Span) -> Value:
    """A declared name as a value: a scalar is read, a tensor waits for its indices."""
    return WholeTensor(tensor, span) if tensor.shape else Read(tensor.name, (), read_kind(tensor), span)


def read_kind(tensor: Tensor) -> Kind:
    """The kind that an element of a tensor reads as."""
    match tensor.dtype:
        case "i32":
            return "int"
        case "bool":
            return "bool"
        case _:
            return "float"


def value_of(ctx: Context, name: str, frame: Frame, span: Span) -> Value | None:
    """The value of a name at a place; None if it is a function or nothing."""
    if name in frame.bound:
        return frame.bound[name]
    found = given(ctx, name, span)
    if found is not None or frame.is_std:
        return found
    found = ctx.values.get(name)
    if isinstance(found, WholeTensor):
        return tensor_value(found.tensor, span)
    if isinstance(found, Number) and found.label == name:
        return Number(found.value, found.kind, span, name)
    return found


def definition_of(ctx: Context, name: str, frame: Frame) -> Def | None:
    """The function of a name, the file's own before the standard library's."""
    if not frame.is_std:
        if name in ctx.defs:
            return ctx.defs[name]
        if name in ctx.values:
            return None
    return ctx.std.get(name)


def known_names(ctx: Context, frame: Frame) -> tuple[str, ...]:
    """Every name that could be written at a place, for suggestions."""
    if frame.is_size:
        return (*SIZES, *(name for name, value in ctx.values.items() if isinstance(value, Number)))
    return (*frame.bound, *GIVEN, *ctx.values, *ctx.defs, *BUILTINS, *ctx.std, "none", "true", "false")


def no_constants(ctx: Context) -> dict[str, tuple[str, str]]:
    """Names that are no constants: what each is, and a help line for who would give it a value."""
    found = {name: ("a statement of the file", f"change the line `{name} ...` there") for name in STATEMENTS}
    found |= dict.fromkeys(GIVEN, ("given by the call", ""))
    found |= dict.fromkeys(ctx.values, ("a `let`", "make it a `const`"))
    found |= dict.fromkeys(ctx.defs, ("a function", ""))
    for name, tensor in ctx.tensors.items():
        kind = "a learned tensor" if tensor.is_learned else "an input"
        found[name] = (kind, f"pass it with each call: `{name}=...`")
    return found


def unknown(ctx: Context, name: str, frame: Frame, span: Span) -> Faulty:
    """Report a name that is nothing, once a statement."""
    if name not in ctx.unknown:
        ctx.unknown.add(name)
        help = given_later(ctx, name, span) or did_you_mean(name, known_names(ctx, frame))
        ctx.faults.add("unknown-name", f"there is no `{name}` here", span, help=help)
    return FAULTY


def given_later(ctx: Context, name: str, span: Span) -> str:
    """A help line for a name that the file gives after the place of its use; nothing for others."""
    later = ctx.later.get(name)
    if later is None or later.source is not span.source or later.start < span.end:
        return ""
    return f"line {later.line} gives it: names are given before they are used"


def may_be_given(ctx: Context, word: Word, passed_to: str = "") -> bool:
    """Whether a file may give this name a meaning; a fault if not.

    passed_to: the call that takes it by keyword, "call" for a tensor and "build" for a constant; others are passed to none.
    """
    name, help = word.text, ""
    if len(name) > MAX_NAME:
        ctx.faults.add("name-too-long", f"a name may have {MAX_NAME} characters at most", word.span)
        return False
    if name in kwlist:
        message, help = f"`{name}` is a word of Python, where tensors and constants are passed by name", "choose another name"
    elif name in RESERVED:
        message, help = f"`{name}` is a name of the language", "choose another name"
    elif name in {"call": CALL_WORDS, "build": BUILD_WORDS}.get(passed_to, ()):
        what = "the call, where tensors" if passed_to == "call" else "`attnspec.build`, where constants"
        message, help = f"`{name}` is an argument of {what} are passed by name", "choose another name"
    elif name in ctx.given_at:
        message, help = f"`{name}` is already given", f"line {ctx.given_at[name].line} gives it; choose another name"
    else:
        ctx.given_at[name] = word.span
        return True
    ctx.faults.add("name-taken", message, word.span, help=help)
    return False
