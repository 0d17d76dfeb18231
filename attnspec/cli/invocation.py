"""What one run of the command keeps for the case that it fails."""

from dataclasses import dataclass
from pathlib import Path

import click


@dataclass
class Invocation:
    """wants_json: errors go to standard output as JSON too. spec: the file that was read, or the bytes of standard input."""

    wants_json: bool
    spec: Path | bytes | None = None


def current() -> Invocation:
    """That of the command being run."""
    return click.get_current_context().find_object(Invocation) or Invocation(wants_json=False)
