"""The attnc command: its commands, each loaded when it is named, and the one place where errors become exit codes."""

import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click

from attnspec import __version__
from attnspec.cli.failure import BROKEN_PIPE, failure_of, hush_stdout
from attnspec.cli.invocation import Invocation
from attnspec.language.suggest import did_you_mean

COMMANDS = {
    "check": "Say whether FILE is a good spec; quick, loads no torch.",
    "compile": "Compile FILE to source, PTX and cubin; needs no GPU.",
    "run": "Run FILE forward and backward against a float64 oracle.",
    "bench": "Time FILE's kernels beside other people's, on a GPU.",
    "show": "Print what a stage of the compiler makes of FILE.",
    "explain": "Tiles skipped, derivatives, roles, memory, what bounds the kernel.",
    "variants": "List the standard variants.",
}


class Commands(click.Group):
    """Commands by name, a module each, imported when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        return import_module(f"attnspec.cli.{cmd_name}").command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown command is told of the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"the commands are: {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command `{args[0]}`; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and lines, without loading a module."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="attnc")
def attnc() -> None:
    """Attention variants, from a few lines of text to kernels.

    FILE is a .attn file, `-` for standard input, or the name of a standard variant such as gemma2_local.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 good, 1 wrong numbers, 2 bad input, 3 cannot here, 70 our fault."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["-h"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a comment may hold any script, a terminal may not
    invocation = Invocation(wants_json="--json" in given)
    try:
        with attnc.make_context("attnc", list(given), obj=invocation) as context:
            code = attnc.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except BrokenPipeError:
        hush_stdout()
        return BROKEN_PIPE
    except BaseException as error:
        return failure_of(error, invocation).tell(invocation.wants_json)
    return code or 0
