"""Faults as a SARIF 2.1.0 log, which code hosts and editors show beside the lines that they are about."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from attnspec import __version__
from attnspec.language.diagnostics import Diagnostic

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(faults: Sequence[Diagnostic], file: Path | None) -> dict[str, Any]:
    """One run of `attnc check` on a file; a rule for each kind of fault, in the order in which they were first found."""
    rules = list(dict.fromkeys(fault.name for fault in faults))
    driver = {"name": "attnc", "version": __version__, "rules": [{"id": name} for name in rules]}
    results = [_result(fault, rules.index(fault.name), file) for fault in faults]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(fault: Diagnostic, rule: int, file: Path | None) -> dict[str, Any]:
    notes = [text for text in (fault.note, fault.help and f"help: {fault.help}") if text]
    text = fault.message if not notes else f"{fault.message} ({'; '.join(notes)})"
    return {
        "ruleId": fault.name,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": text},
        "locations": [{"physicalLocation": place} for place in _places(fault, file)],
    }


def _places(fault: Diagnostic, file: Path | None) -> list[dict[str, Any]]:
    """Lines and columns count from 1; the end is that of the character behind the last.

    A fault of the command line is one of the file as a whole; what was read from standard input lies nowhere.
    """
    source = fault.span.source
    if source.name.startswith("<"):
        return [] if file is None else [{"artifactLocation": {"uri": uri_of(str(file))}}]
    line, column = source.position(fault.span.start)
    last, end = source.position(max(fault.span.end, fault.span.start))
    region = {"startLine": line, "startColumn": column, "endLine": last, "endColumn": end}
    return [{"artifactLocation": {"uri": uri_of(source.name)}, "region": region}]


def uri_of(name: str) -> str:
    """A path as a URI: of a file where it is absolute, else relative to where the command ran."""
    if PurePath(name).is_absolute():
        return Path(name).as_uri()
    return quote(PurePath(name).as_posix())
