"""A compiled kernel: what the assembler made of emitted source, and what can be read off it."""

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

EXACT_REGISTERS, FRAME_SIZE = 0x2F, 0x11  # attributes of .nv.info in a cubin
INFO_SECTION = ".nv.info"
WITH_SIZE = 4  # format of an attribute that carries its own length
INSTRUCTION = re.compile(r"^(?:@!?%?\w+\s+)?([a-z][\w.:]*)")


@dataclass(frozen=True)
class Binary:
    """One kernel. registers: per thread at launch; frame_bytes: local memory a thread, 0 = no spills.

    sass: None if not asked for. compiled: the live function of this process, None where the binary came from the disk.
    """

    name: str
    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    sass: str | None = field(repr=False)
    registers: int
    frame_bytes: int
    compiled: Any = field(default=None, repr=False, compare=False)

    def census(self) -> Mapping[str, int]:
        """How often each PTX instruction stands in the text, by its full name."""
        return census(self.ptx)


def census(ptx: str) -> Counter[str]:
    """PTX instructions by name, modifiers included."""
    lines = (line.strip() for line in ptx.split("\n"))
    found = (INSTRUCTION.match(line) for line in lines if line.endswith(";"))
    return Counter(match.group(1).rstrip(".") for match in found if match)


def read_resources(cubin: bytes) -> tuple[int, int]:
    """(registers a thread, bytes of local memory a thread): the largest of any function in a cubin."""
    registers = frame = 0
    for attribute, value in _info_attributes(cubin):
        if attribute in (EXACT_REGISTERS, FRAME_SIZE):
            amount = struct.unpack_from("<I", value, 4)[0]
            if attribute == EXACT_REGISTERS:
                registers = max(registers, amount)
            else:
                frame = max(frame, amount)
    return registers, frame


def _sections(elf: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each section of a 64-bit ELF file."""
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        yield elf[start : elf.index(b"\0", start)].decode(), header[4], header[5]


def _info_attributes(cubin: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes of the module's .nv.info section that carry a value."""
    for name, offset, size in _sections(cubin):
        if name != INFO_SECTION:
            continue
        at = offset
        while at < offset + size:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form == WITH_SIZE:
                yield attribute, cubin[at : at + length]
                at += length
