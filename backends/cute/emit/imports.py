"""What every emitted module imports first."""

from attnspec.backends.cute.emit.dialect import LIBRARY
from attnspec.backends.source import Source

SHARED = "attnspec.backends.cute.kernel"


def write_compiler_imports(source: Source, kind: str) -> None:
    """The DSL, and how the sequences of a call lie: kind, a module of the library."""
    source.line("from types import SimpleNamespace")
    source.blank()
    source.line("import cuda.bindings.driver as cuda")
    source.line("import cutlass")
    source.line("import cutlass.cute as cute")
    source.line(f"from {SHARED} import {', '.join(sorted(('host', kind)))}")


def write_block_imports(source: Source, functions: str) -> None:
    """What the variant's functions call."""
    for module, names in LIBRARY.items():
        used = [name for name in names if f"{name}(" in functions]
        if used:
            source.line(f"from {SHARED}.blocks.{module} import {', '.join(sorted(used))}")
