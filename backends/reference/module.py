"""What the two emitted reference modules share: the docstring, the imports and the constants at their head."""

import re

from attnspec.backends.emitted import Module
from attnspec.backends.source import Source

from attnspec.language.spec import Spec

TILE_Q = 128  # rows; as in the GPU kernels, so that tile counts agree
TILE_KV = 128  # keys

OPERATIONS = (
    "INF",
    "TRUE",
    "FALSE",
    "absolute",
    "add_at",
    "choose",
    "exp",
    "exp2",
    "float_floor_divide",
    "float_remainder",
    "floor",
    "floor_divide",
    "invert",
    "log",
    "maximum",
    "minimum",
    "read",
    "remainder",
    "rsqrt",
    "search",
    "shift_left",
    "shift_right",
    "sigmoid",
    "spread",
    "sqrt",
    "tanh",
    "to_float",
    "zeros",
)
TILES = (
    "add_keys",
    "key_tiles",
    "load_keys",
    "load_row_values",
    "load_rows",
    "query_tiles",
    "store_row_values",
    "store_rows",
    "weigh",
)


def finish_module(name: str, spec: Spec, purpose: list[str], body: Source) -> Module:
    """The module with its head: only what the body uses is imported."""
    text = str(body)
    head = Source()
    head.docstring(f"{spec.name}: {purpose[0]}", "", *purpose[1:])
    head.blank()
    if re.search(r"\bSimpleNamespace\b", text):
        head.line("from types import SimpleNamespace")
        head.blank()
    head.line("import torch")
    head.blank()
    write_import(head, "attnspec.backends.reference.operations", [item for item in OPERATIONS if uses(text, item)])
    write_import(head, "attnspec.backends.reference.tiles", [item for item in TILES if uses(text, item)])
    head.blank()
    head.line(f"TILE_Q = {TILE_Q}")
    head.line(f"TILE_KV = {TILE_KV}")
    head.line(f"HEAD_DIM_V = {spec.head_dim_v}")
    head.blank(2)
    spans = {line + len(head.lines): span for line, span in body.spans.items()}
    return Module(name, str(head) + text, spans)


def uses(text: str, name: str) -> bool:
    """Whether code calls a function, or reads a constant, of that name (an attribute of that name is another)."""
    call = "" if name.isupper() else r"\("
    return re.search(rf"(?<![\w.]){name}\b{call}", text) is not None


def write_import(source: Source, module: str, names: list[str]) -> None:
    """`from module import names`, one a line if there are many."""
    if not names:
        return
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 120:
        source.line(line)
        return
    with source.block(f"from {module} import ("):
        for name in names:
            source.line(f"{name},")
    source.line(")")
