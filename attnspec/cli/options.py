"""Arguments that several commands take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]
GPU_TARGETS = ("sm100", "sm90")
TARGETS = (*GPU_TARGETS, "reference")


class Constant(click.ParamType):
    """`NAME=VALUE`; a value that is no number is kept as it is, for the checker to refuse with its place."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """The name and the number."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE, such as window=1024", param, ctx)
        return name.strip(), number(text.strip())


def number(text: str) -> int | float | str:
    """An int or a float if the text is one as the language writes it: hexadecimal too, without underscores."""
    kinds: tuple[Callable[[str], int | float], ...] = (
        int,
        lambda digits: int(digits, 16 if "x" in digits.lower() else 10),
        float,
    )
    for kind in kinds if "_" not in text else ():
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def file_argument(command: Command) -> Command:
    """FILE."""
    return click.argument("file", metavar="FILE")(command)


def constants_option(command: Command) -> Command:
    """-D NAME=VALUE, any number of times."""
    text = "Override a `const` of the file; may be repeated."
    return click.option("-D", "constants", multiple=True, type=Constant(), callback=_once_each, help=text)(command)


def _once_each(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    names = [name for name, _ in value]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
    return value


class NamedPath(click.Path):
    """A path to write to; an empty one, such as of a shell variable that is not set, is none."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if str(value) == "":
            self.fail("an empty path; for the current folder write `.`", param, ctx)
        return super().convert(value, param, ctx)


def json_option(command: Command) -> Command:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines; errors too.")(command)


def ctas_option(command: Command) -> Command:
    """--ctas, a number or None."""
    text = "Two CTAs of sm100 share keys and values, in the backward queries, or do not.  [default: as the cost model finds]"
    return click.option("--ctas", type=click.Choice(["1", "2"]), callback=_number, help=text)(command)


def query_tiles_option(command: Command) -> Command:
    """--query-tiles, a number or None."""
    text = "Query tiles of a work tile in the forward of sm100; 1 takes two key tiles a step.  [default: 2 where they fit]"
    return click.option("--query-tiles", type=click.Choice(["1", "2"]), callback=_number, help=text)(command)


def _number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else int(value)


def target_option(default: str) -> Callable[[Command], Command]:
    """--target."""
    choice = click.Choice(TARGETS)
    return click.option("--target", type=choice, default=default, show_default=True, help="What the kernels run on.")
