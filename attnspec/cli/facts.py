"""The facts of a compilation, for manifest.json and for machines."""

import hashlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnspec import __version__
from attnspec.cli.walk import Made, Walk
from attnspec.language.show import show
from attnspec.runtime.cache_key import installed_version

if TYPE_CHECKING:
    from attnspec.runtime.binary import Binary

# What the PTX census counts, by the start of an instruction's name.
COUNTED = {
    "tensor core": ("tcgen05.mma",),
    "tensor commit": ("tcgen05.commit",),
    "tensor memory load": ("tcgen05.ld",),
    "tensor memory store": ("tcgen05.st",),
    "bulk copy in": ("cp.async.bulk.tensor.4d.shared", "cp.async.bulk.tensor.3d.shared"),
    "bulk copy out": ("cp.async.bulk.tensor.4d.global", "cp.async.bulk.tensor.3d.global"),
    "exponential": ("ex2.approx",),
    "tanh": ("tanh.approx",),
    "barrier set-up": ("mbarrier.init",),
    "barrier wait": ("mbarrier.try_wait",),
    "barrier arrival": ("mbarrier.arrive",),
    "local memory": ("ld.local", "st.local"),
}


def facts_of(
    made: Made, walk: Walk, binaries: "Mapping[str, Binary]", files: Mapping[str, bytes], notes: list[str]
) -> dict[str, Any]:
    """JSON types. binaries: by module. files: contents by name, for sizes and checksums."""
    facts = {"target": made.emitted.target, **made.emitted.manifest, "spec": show(made.spec)}
    facts |= resources_of(binaries.get("forward"))
    modules = made.emitted.modules
    if made.backward is not None:
        modules = (*modules, *made.backward.modules)
        facts["backward"] = {**made.backward.manifest, **resources_of(binaries.get("backward"))}
    return {
        **facts,
        "passes": [module.name for module in modules],
        "notes": notes,
        "versions": versions(),
        "stages": {stage.name: {"seconds": round(stage.seconds, 4), "made": stage.made} for stage in walk.done},
        "files": {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()},
    }


def resources_of(binary: "Binary | None") -> dict[str, Any]:
    """What a compiled module uses."""
    if binary is None:
        return {}
    return {"registers": binary.registers, "frame_bytes": binary.frame_bytes, "ptx_census": census_summary(binary)}


def census_summary(binary: "Binary") -> dict[str, int]:
    """How often each sort of instruction that a kernel is made of stands in the PTX."""
    census = binary.census()
    return {sort: sum(census[name] for name in census if name.startswith(starts)) for sort, starts in COUNTED.items()}


def versions() -> dict[str, str]:
    """Of what made the files."""
    python = ".".join(map(str, sys.version_info[:3]))
    compiler = "nvidia-cutlass-dsl"
    return {"attnspec": __version__, compiler: installed_version(compiler), "python": python}
