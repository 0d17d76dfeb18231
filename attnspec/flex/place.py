"""Where in the caller's Python a traced operation stands, and which names its operands have there."""

import ast
import linecache
import sys
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy
import torch

from attnspec.language.source import Source, Span

OURS = str(Path(__file__).parent)
START = str(Path(__file__).with_name("mode.py"))  # what calls the function that is traced
NUMPY = str(Path(numpy.__file__).parent)
TORCH = str(Path(torch.__file__).parent)
Position = tuple[int, int, int, int]  # first line, last line, first and last column; columns in bytes of UTF-8
_ABSENT = object()


@dataclass(frozen=True)
class Place:
    """An operation of the caller's. node: its syntax, None where the source cannot be had; above: what holds that node."""

    span: Span
    node: ast.AST | None = None
    above: ast.AST | None = None
    frame: FrameType | None = field(default=None, compare=False, repr=False)

    @property
    def inner(self) -> "Place":
        """The same for a part of the operation, which is not what a variable is given."""
        return replace(self, above=None)

    @property
    def target(self) -> str | None:
        """`name` where the statement is `name = OPERATION`."""
        above = self.above
        is_whole = isinstance(above, ast.Assign) and above.value is self.node and len(above.targets) == 1
        target = above.targets[0] if is_whole and isinstance(above, ast.Assign) else None
        return target.id if isinstance(target, ast.Name) else None

    def name_of(self, value: Any) -> str | None:
        """The name by which a value stands in the operation: `window` in `q - kv < window`, `bias` in `self.bias[h]`."""
        for written in _operands(self.node):
            if self._value_of(written) is value:
                return written.id if isinstance(written, ast.Name) else getattr(written, "attr", None)
        return None

    def is_given(self, name: str) -> bool:
        """Whether a name comes from outside the function, or is an argument of it: not a variable that it works out."""
        if self.frame is None:
            return False
        code = self.frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return name in (*code.co_freevars, *arguments) or name not in self.frame.f_locals

    def _value_of(self, written: ast.AST) -> Any:
        """What a name or an attribute of the operation is there."""
        if self.frame is None:
            return _ABSENT
        if isinstance(written, ast.Name):
            local = self.frame.f_locals.get(written.id, _ABSENT)
            return self.frame.f_globals.get(written.id, _ABSENT) if local is _ABSENT else local
        if isinstance(written, ast.Attribute):
            owner = self._value_of(written.value)
            return _ABSENT if owner is _ABSENT else getattr(owner, written.attr, _ABSENT)
        return _ABSENT


def here() -> Place:
    """The operation that the innermost frame outside of this package and of torch is at; one of torch's own if there is none."""
    frame = inner = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((OURS, TORCH)):
        if not frame.f_code.co_filename.startswith(OURS):
            inner = frame
        frame = inner if frame.f_code.co_filename == START and inner.f_code.co_filename.startswith(TORCH) else frame.f_back
        if frame is inner:
            break
    return place_in(frame)


def raised_at(error: BaseException) -> tuple[FrameType, Place]:
    """The frame that an error comes out of, and the caller's operation above that: outside of this package, torch and numpy."""
    trace = error.__traceback__
    frames: list[FrameType] = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    theirs = [frame for frame in frames if not frame.f_code.co_filename.startswith((OURS, TORCH, NUMPY))]
    return frames[-1], place_in((theirs or frames)[-1])


def place_in(frame: FrameType) -> Place:
    """The operation that a frame is at."""
    position = _position(frame)
    file = frame.f_code.co_filename
    source = _source(file, position[0])
    span = _span(source, position)
    found = None if file.startswith(TORCH) else _nodes(file, source.text).get(position)
    return Place(span, *(found or (None, None)), frame)


def place_of(function: Any) -> Place:
    """Where a function is defined; of a module or another callable object, what it does when called."""
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "forward", None) or type(function).__call__
    code = getattr(function, "__code__", None) or getattr(called, "__code__", None)
    if not isinstance(code, CodeType):
        return Place(Span(Source(getattr(function, "__name__", type(function).__name__), ""), 0, 0))
    source = _source(code.co_filename, code.co_firstlineno)
    return Place(_span(source, (code.co_firstlineno, code.co_firstlineno, -1, -1)))


def short_place(function: Any) -> str:
    """`masks.py:12`, for a comment."""
    span = place_of(function).span
    return f"{Path(span.source.name).name}:{span.line}"


def _position(frame: FrameType) -> Position:
    """Of the instruction that a frame is at; columns -1 where Python was told to keep none."""
    found = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, last, start, end = found
    if line is None or last is None or start is None or end is None:
        return frame.f_lineno, frame.f_lineno, -1, -1
    return line, last, start, end


@lru_cache(maxsize=32)
def _text(file: str, lines: tuple[str, ...]) -> Source:
    return Source(file, "".join(lines))


def _source(file: str, line: int) -> Source:
    """The text of a file or of a notebook's cell; empty lines up to the one wanted where there is none."""
    lines = tuple(linecache.getlines(file))
    return _text(file, lines) if len(lines) >= line else Source(file, "\n" * (line - 1))


def _span(source: Source, position: Position) -> Span:
    """The characters of a position; of one without columns, the line's text."""
    line, last, start, end = position
    first_text = source.line(line)
    if start < 0:
        indent = len(first_text) - len(first_text.lstrip())
        begin = source.line_starts[line - 1]
        return Span(source, begin + indent, begin + len(first_text.rstrip()))
    return Span(source, _offset(source, line, start), _offset(source, last, end))


def _offset(source: Source, line: int, column: int) -> int:
    if line > len(source.line_starts):
        return len(source.text)
    before = source.line(line).encode()[:column].decode(errors="ignore")
    return source.line_starts[line - 1] + len(before)


@lru_cache(maxsize=32)
def _nodes(file: str, text: str) -> dict[Position, tuple[ast.AST, ast.AST]]:
    """Expressions of a source by their positions, each with the node above it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[Position, tuple[ast.AST, ast.AST]] = {}
    for above in ast.walk(tree):
        for node in ast.iter_child_nodes(above):
            if isinstance(node, ast.expr | ast.AugAssign) and node.end_lineno is not None and node.end_col_offset is not None:
                found[node.lineno, node.end_lineno, node.col_offset, node.end_col_offset] = (node, above)
    return found


def _operands(node: ast.AST | None) -> tuple[ast.AST, ...]:
    """What an operation is of: its operands, its arguments, and what it is a method of."""
    match node:
        case ast.Call():
            owner = (node.func.value,) if isinstance(node.func, ast.Attribute) else ()
            return (*owner, *node.args, *(keyword.value for keyword in node.keywords))
        case ast.Subscript():
            inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
            return (node.value, *inside)
        case ast.AugAssign():
            return (node.target, node.value)
        case ast.AST():
            return tuple(ast.iter_child_nodes(node))
        case _:
            return ()
