"""attnc check: is a file a good spec?"""

from pathlib import Path
from typing import Any

import click

from attnspec.cli.failure import BAD_INPUT
from attnspec.cli.invocation import current
from attnspec.cli.json_text import json_text
from attnspec.cli.options import constants_option, file_argument, json_option
from attnspec.cli.read_file import read_spec
from attnspec.cli.sarif import sarif_log
from attnspec.cli.summary import spec_as_dict, spec_summary
from attnspec.language.diagnostics import SpecError

FORMATS = ("text", "json", "sarif")


@click.command("check")
@file_argument
@constants_option
@click.option("--format", "format_", type=click.Choice(FORMATS), help="What to print: text, JSON (as --json), or SARIF 2.1.0.")
@json_option
def command(file: str, constants: tuple[tuple[str, Any], ...], format_: str | None, as_json: bool) -> int:
    """Say whether FILE is a good spec: its names, kinds, shapes and indices. Loads neither torch nor the kernel compiler."""
    if as_json and format_ not in (None, "json"):
        raise click.UsageError(f"--json and --format {format_} ask for two formats")
    if format_ == "sarif":
        return _check_for_sarif(file, constants)
    as_json = as_json or format_ == "json"
    current().wants_json = as_json
    spec = read_spec(file, constants)
    click.echo(json_text({"ok": True, **spec_as_dict(spec)}) if as_json else f"ok  {spec_summary(spec)}")
    return 0


def _check_for_sarif(file: str, constants: tuple[tuple[str, Any], ...]) -> int:
    """Print a SARIF log: of the faults found, or of none."""
    try:
        read_spec(file, constants)
    except SpecError as error:
        read = current().spec
        click.echo(json_text(sarif_log(error.diagnostics, read if isinstance(read, Path) else None)))
        return BAD_INPUT
    click.echo(json_text(sarif_log((), None)))
    return 0
