"""Rows as text in columns."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = (), indent: str = "") -> str:
    """Columns two blanks apart. right: numbers of the columns that are set to the right; the last column is free."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]

    def cell(text: str, at: int) -> str:
        return text.rjust(widths[at]) if at in right else text.ljust(widths[at])

    return "\n".join(indent + "  ".join(cell(text, at) for at, text in enumerate(line)).rstrip() for line in lines)
