"""Any error as what a person reads, what a machine reads, and an exit code; never a traceback."""

import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from attnspec.cli.dump import write_dump
from attnspec.cli.invocation import Invocation
from attnspec.cli.json_text import json_text
from attnspec.errors import ArgumentError, CacheError, IntegerOverflowError, TargetError
from attnspec.language.diagnostics import Diagnostic, InternalError, SpecError, printable
from attnspec.language.source import NOWHERE, Source, Span

WRONG_NUMBERS, BAD_INPUT, CANNOT_HERE, OUR_FAULT, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 70, 130, 141


@dataclass(frozen=True)
class Failure:
    """text: for standard error. errors: JSON types, one an error: name, message, file, line, column, where it ends, help."""

    code: int
    text: str
    errors: tuple[Mapping[str, Any], ...]

    def tell(self, as_json: bool) -> int:
        """Print it; returns the exit code."""
        try:
            if as_json:
                print(json_text({"errors": list(self.errors)}), flush=True)
            print(self.text, file=sys.stderr, flush=True)
        except BrokenPipeError:
            hush_stdout()
        return self.code


def failure_of(error: BaseException, invocation: Invocation) -> Failure:
    """What to say of an error, and with which exit code to leave."""
    match error:
        case SpecError():
            return Failure(BAD_INPUT, str(error), tuple(map(row_of, error.diagnostics)))
        case click.UsageError():
            return usage_failure(error)
        case click.ClickException():
            return plain("usage", error.format_message(), BAD_INPUT)
        case IntegerOverflowError():
            return Failure(BAD_INPUT, str(error), (row_of(error.diagnostic),))
        case ArgumentError():
            return plain("argument", str(error), BAD_INPUT)
        case TargetError() | CacheError():
            name = "target" if isinstance(error, TargetError) else "cache"
            return plain(name, str(error), CANNOT_HERE)
        case KeyboardInterrupt() | click.Abort():
            return plain("interrupted", "interrupted", INTERRUPTED)
        case MemoryError():
            return plain("memory", "there is not enough memory for this here", CANNOT_HERE)
        case ModuleNotFoundError(name=None):  # raised by hand: an optional package is not there
            return plain("missing-package", str(error), CANNOT_HERE)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return plain("disk-full", f"{error.filename or 'a file'} cannot be written: {error.strerror}", CANNOT_HERE)
    match type(error).__name__:  # by name: what defines them is not imported for this
        case "Unsupported":
            return unsupported_failure(error, invocation)
        case "KernelFault":
            return plain(
                str(getattr(error, "kind", "kernel")), f"the emulator found a fault of the kernel: {error}", WRONG_NUMBERS
            )
        case "FaultsFound":
            return plain("faults", f"the emulator found faults of the kernel\n{error}", WRONG_NUMBERS)
        case "EmulatorError" | "UnknownInstruction":
            return plain("emulator", str(error), CANNOT_HERE)
    return internal_failure(error, invocation)


def plain(name: str, message: str, code: int) -> Failure:
    """An error that is not about a place in a file."""
    nowhere = dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    row = {"name": name, "message": message, **nowhere, "help": None}
    return Failure(code, f"error[{name}]: {printable_lines(message)}", (row,))


def usage_failure(error: click.UsageError) -> Failure:
    """A wrong command line, with the usage of the command it is about."""
    usage = f"\n{error.ctx.get_usage()}\nhelp: {error.ctx.command_path} -h" if error.ctx is not None else ""
    told = plain("usage", error.format_message(), BAD_INPUT)
    return Failure(told.code, told.text + usage, told.errors)


def unsupported_failure(error: Any, invocation: Invocation) -> Failure:
    """A statement that the target cannot run, shown where it stands in the file."""
    span = error.span if error.span != NOWHERE else statement_span(error.statement, invocation)
    if span is None:
        return plain("not-on-this-target", str(error), CANNOT_HERE)
    told = Diagnostic("not-on-this-target", str(error), span, help="`--target reference` runs every variant")
    return Failure(CANNOT_HERE, str(told), (row_of(told),))


def statement_span(statement: str, invocation: Invocation) -> Span | None:
    """Where a statement stands, looked for by its first word; None if the file has no such line."""
    if invocation.spec is None:
        return None
    data = invocation.spec if isinstance(invocation.spec, bytes) else invocation.spec.read_bytes()
    name = "<stdin>" if isinstance(invocation.spec, bytes) else str(invocation.spec)
    text = data.decode("utf-8", errors="replace")
    start, word = 0, statement.split()[0]
    for line in text.splitlines(keepends=True):
        code = line.partition("#")[0].rstrip()
        if code.split()[:1] == [word]:
            indent = len(code) - len(code.lstrip())
            return Span(Source(name, text), start + indent, start + len(code))
        start += len(line)
    return None


def internal_failure(error: BaseException, invocation: Invocation) -> Failure:
    """A fault of ours: asks for a report, and names the folder with what the report needs."""
    message = str(error) if isinstance(error, InternalError) else str(InternalError(f"{type(error).__name__}: {error}"))
    return plain("internal", f"{message}\n{write_dump(error, invocation)}", OUR_FAULT)


def row_of(item: Diagnostic) -> Mapping[str, Any]:
    """A diagnostic in JSON types."""
    line, column = item.span.source.position(item.span.start)
    end_line, end_column = item.span.source.position(max(item.span.start, item.span.end))
    where = {"file": item.span.source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}
    return {"name": item.name, "message": item.message, **where, "help": item.help or None}


def printable_lines(text: str) -> str:
    """The text without characters that a terminal obeys, line ends kept."""
    return "\n".join(map(printable, text.split("\n")))


def hush_stdout() -> None:
    """Nobody reads any more: what is still in the buffer goes nowhere, and Python does not complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
