"""Which ptxas made a cubin, and what is publicly known against it: the emulator runs PTX, and does not see what ptxas makes."""

import re
from dataclasses import dataclass

RELEASE = re.compile(rb"Cuda compilation tools, release \d+\.\d+, V(\d+)\.(\d+)\.(\d+)")
Version = tuple[int, int, int]


@dataclass(frozen=True)
class KnownFault:
    """ptxas from `first` to `last`, both in the range, as the version in a cubin counts."""

    first: Version
    last: Version
    what: str

    def says(self, version: Version) -> str:
        """A sentence for who compiles with it."""
        return f"made by ptxas {_text(version)}; of {_text(self.first)} to {_text(self.last)} {self.what}: docs/compiling.md"


# JAX refuses its causal attention kernel for CUDA 12.8.0 to 12.9.1 (attention_mgpu.py), whose ptxas are 12.8.61 to 12.9.86.
KNOWN_FAULTS = (KnownFault((12, 8, 0), (12, 9, 86), "wrong code was reported for a kernel of others"),)


def ptxas_of(cubin: bytes) -> Version | None:
    """The version that a cubin names, None if it names none."""
    found = RELEASE.search(cubin)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def known_against(cubin: bytes) -> tuple[str, ...]:
    """What a person should know who is about to use a cubin; mostly nothing."""
    version = ptxas_of(cubin)
    if version is None:
        return ()
    return tuple(fault.says(version) for fault in KNOWN_FAULTS if fault.first <= version <= fault.last)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
