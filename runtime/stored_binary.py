"""Compiled kernels from the user's cache: what one process has compiled, the next one reads."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import COMPILER, assemble
from attnspec.runtime.binary import Binary
from attnspec.runtime.cache import Cache, Entry, open_cache
from attnspec.runtime.cache_key import versions
from attnspec.runtime.disassemble import require_disassembler
from attnspec.runtime.source_meaning import meaning_of

from attnspec.errors import CacheError

PREFIX = "binary-"
NAMES = ("name", "spec", "constants")  # facts that the text has by their values
# Line tables hold the path of the source, and a cubin counts its bytes: it can be exchanged for another one that is no longer.
WORKSHOP = ".work-" + "-" * 150


def assemble_or_find(emitted: Emitted, folder: Path, sass: bool = False) -> Binary:
    """PTX and cubin of a module whose file is written to `folder`; `compiled` is None. Without a usable cache it is compiled.

    sass: disassembled too; without a disassembler an error, whether or not the kernel is in the cache.
    """
    if sass:
        require_disassembler()
    try:
        cache = open_cache()
    except CacheError:
        return assemble(emitted, folder, sass)
    module = emitted.modules[0]
    key = PREFIX + key_of(emitted, sass)
    entry = cache.find(key)
    if entry is None:
        try:
            entry = make(cache, key, emitted, sass)
        except OSError:  # a full or read-only disk
            return assemble(emitted, folder, sass)
    (folder / module.file_name).write_text(module.text, encoding="utf-8")
    return binary_of(entry, emitted.manifest["name"], folder)


def key_of(emitted: Emitted, sass: bool, with_lines: bool = True) -> str:
    """What decides about the bytes: what the text means, its arguments, and the versions of the library and the kernel compiler.

    with_lines: where each statement stands, too.
    """
    texts = [meaning_of(module, with_lines) for module in emitted.modules]
    facts = {name: fact for name, fact in emitted.manifest.items() if name not in NAMES}
    facts["arguments"] = [{key: row[key] for key in row if key != "name"} for row in emitted.manifest["arguments"]]
    parts = [texts, facts, sass, versions((COMPILER,))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def make(cache: Cache, key: str, emitted: Emitted, sass: bool) -> Entry:
    """Compile in a folder of the cache, and keep what comes out."""
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=cache.folder) as place:
        binary = assemble(emitted, Path(place), sass)
    blobs = {"ptx": binary.ptx.encode(), "cubin": binary.cubin}
    if binary.sass is not None:
        blobs["sass"] = binary.sass.encode()
    return cache.store(key, blobs, {"registers": binary.registers, "frame_bytes": binary.frame_bytes, "path": place})


def binary_of(entry: Entry, name: str, folder: Path) -> Binary:
    """A kept kernel, its line tables pointing into `folder`, unless that has a longer path than where it was compiled."""
    before, after = os.fsencode(entry.facts["path"]), os.fsencode(folder)
    padded = after + b"/" * (len(before) - len(after))
    text = {kind: blob.replace(before, after).decode() for kind, blob in entry.blobs.items() if kind != "cubin"}
    cubin = entry.blobs["cubin"]
    if len(padded) == len(before):
        cubin = cubin.replace(before, padded)
    return Binary(name, text["ptx"], cubin, text.get("sass"), entry.facts["registers"], entry.facts["frame_bytes"])
