"""A variant walked to its emitted module and its binary for Hopper, once a session."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from attnspec.backends.emitted import Emitted
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.assemble import assemble
from attnspec.runtime.binary import Binary

from attnspec import stages

TARGET = "sm90"


@cache
def scheduled(text: str) -> Schedule:
    """The schedule of a variant (a path or a text)."""
    analysed = stages.analyse(stages.read(text))
    return stages.place(stages.draw(analysed, "forward", TARGET), analysed, TARGET)


@cache
def emitted(text: str) -> Emitted:
    """Its emitted module."""
    return stages.emit(stages.analyse(stages.read(text)), scheduled(text))


@cache
def compiled(text: str) -> Binary:
    """Its binary, made anew."""
    return assemble(emitted(text), Path(mkdtemp(prefix="attnspec-test-")), sass=True)


def forward_text(text: str) -> str:
    """The emitted forward module."""
    return emitted(text).module("forward").text


def with_head_dim(dims: str, dtype: str = "bf16") -> str:
    """A causal variant of some head dimensions."""
    return f"attention causal\nhead_dim {dims}\ndtype {dtype}\nmask = kv <= qpos\n"
