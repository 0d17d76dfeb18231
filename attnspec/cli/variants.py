"""attnc variants: what comes with attnspec."""

import click

from attnspec import variants
from attnspec.cli.json_text import json_text
from attnspec.cli.options import json_option
from attnspec.cli.table import table


@click.command("variants")
@json_option
def command(as_json: bool) -> int:
    """List the standard variants; each name can stand for FILE."""
    rows = [(name, *variants.describe(name)) for name in variants.names()]
    if as_json:
        keys = ("name", "description", "source")
        click.echo(json_text([dict(zip(keys, row, strict=True)) for row in rows]))
    else:
        click.echo(table(("name", "what it is"), [row[:2] for row in rows]))
    return 0
