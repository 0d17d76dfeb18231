"""Emitted text as a live module, with its lines in tracebacks and debuggers."""

import hashlib
import linecache
from types import ModuleType

from attnspec.backends.emitted import Module


def load_module(module: Module, owner: str) -> ModuleType:
    """Run a module's text. owner: the target, for the name that tracebacks show."""
    digest = hashlib.sha256(module.text.encode()).hexdigest()[:12]
    file_name = f"<attnspec {owner} {module.name} {digest}>"
    lines = module.text.splitlines(keepends=True)
    linecache.cache[file_name] = (len(module.text), None, lines, file_name)
    live = ModuleType(f"attnspec_emitted_{owner}_{module.name}_{digest}")
    exec(compile(module.text, file_name, "exec", dont_inherit=True), live.__dict__)
    return live
