"""attnc check: is a file a good spec?"""

from typing import Any

import click

from attnspec.cli.json_text import json_text
from attnspec.cli.options import constants_option, file_argument, json_option
from attnspec.cli.read_file import read_spec
from attnspec.cli.summary import spec_as_dict, spec_summary


@click.command("check")
@file_argument
@constants_option
@json_option
def command(file: str, constants: tuple[tuple[str, Any], ...], as_json: bool) -> int:
    """Say whether FILE is a good spec: its names, kinds, shapes and indices. Loads neither torch nor the kernel compiler."""
    spec = read_spec(file, constants)
    click.echo(json_text({"ok": True, **spec_as_dict(spec)}) if as_json else f"ok  {spec_summary(spec)}")
    return 0
