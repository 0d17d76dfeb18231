"""A variant walked to its emitted module and its binary, once a session."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from attnspec.backends.emitted import Emitted
from attnspec.backends.sm100.backend import emit
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analyse import analyse
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.graph import Value
from attnspec.lowering.schedule.place import place
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary

from attnspec.language.load import read_spec


@cache
def scheduled(text: str, *edges: Value) -> tuple[Analysed, Schedule]:
    """The schedule of a variant (a path or a text), with more edges in its graph."""
    analysed = analyse(read_spec(text, {}))
    graph = draw(analysed, "forward")
    return analysed, place(replace(graph, values=(*graph.values, *edges)), analysed, LIMITS)


@cache
def emitted(text: str, *edges: Value) -> Emitted:
    """Its emitted module."""
    return emit(*scheduled(text, *edges))


@cache
def compiled(text: str, *edges: Value, sass: bool = False) -> Binary:
    """Its binary, made anew."""
    return assemble(emitted(text, *edges), Path(mkdtemp(prefix="attnspec-test-")), sass)


def forward_text(text: str, *edges: Value) -> str:
    """The emitted forward module."""
    return emitted(text, *edges).module("forward").text


def with_head_dim(dims: str, dtype: str = "bf16") -> str:
    """A causal variant of some head dimensions."""
    return f"attention causal\nhead_dim {dims}\ndtype {dtype}\nmask = kv <= qpos\n"
