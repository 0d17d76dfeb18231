"""A dataflow graph as text, and as plain values for JSON."""

from dataclasses import asdict
from typing import Any

from attnspec.lowering.dataflow.graph import Dataflow, Value

UNITS = {"shared": "bytes", "tensor": "columns", "register": "bytes a thread", "global": "bytes"}


def show_dataflow(dataflow: Dataflow) -> str:
    """Operations, buffers and values, a line each, in the order of the graph."""
    tiles = f"{dataflow.query_tiles} query tiles of {dataflow.tile_q} rows, {dataflow.tile_kv} keys a step"
    tiles += f", in each of {dataflow.ctas} CTAs" if dataflow.ctas > 1 else ""
    rows = [f"dataflow {dataflow.direction}: {tiles}", "", "operations"]
    rows += [
        f"  {item.name:<15}{item.engine:<9}{item.rate:<6}{'joint' if item.joint else item.note}".rstrip()
        for item in dataflow.operations
    ]
    rows += ["", "buffers"]
    rows += [f"  {item.name:<9}{item.space:<10}{item.size} {UNITS[item.space]}" for item in dataflow.buffers]
    rows += ["", "values"]
    rows += [f"  {item.producer + ' -> ' + item.consumer:<36}{_what(item)}".rstrip() for item in dataflow.values]
    return "\n".join(rows) + "\n"


def dataflow_as_dict(dataflow: Dataflow) -> dict[str, Any]:
    """The same for JSON."""
    return asdict(dataflow)


def _what(value: Value) -> str:
    """`p_head in p[0:48], 1 step later`."""
    part = f"[{value.part[0]}:{value.part[1]}]" if value.part else ""
    text = f"{value.name} in {value.buffer}{part}" if value.name else f"in {value.buffer}{part}"
    text = text if value.buffer else f"{value.name} order alone".strip()
    return text + (f", {value.distance} step later" if value.distance else "")
