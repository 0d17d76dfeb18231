"""Registers of each kernel, from the compiled image that the host code loads: PTX does not say with how many one is launched."""

import ctypes
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAGIC = b"\x7fELF"
FATBIN, CUBIN = 0xBA55ED50, 2  # first word of a container of images; kind of those that are cubins
SYMBOLS = 2  # type of a section that holds a symbol table
INFO = b".nv.info"
WITH_SIZE, REGISTER_COUNT = 4, 0x2F  # format of an attribute that carries its own length; the one with (symbol, registers)


@dataclass(frozen=True)
class Section:
    """name: its place in the section of names. link: of a symbol table, the section of its names."""

    name: int
    kind: int
    start: int
    size: int
    link: int

    @property
    def data(self) -> bytes:
        """Its bytes."""
        return ctypes.string_at(self.start, self.size)


def registers_at(address: int) -> Mapping[str, int]:
    """Registers a thread by kernel name, of a cubin in memory or a container of some; nothing of compressed ones."""
    found: dict[str, int] = {}
    for image in images_at(address):
        found |= registers_of_elf(image)
    return found


def images_at(address: int) -> Iterator[int]:
    """Addresses of cubins. A container: magic, version, bytes of this header, bytes of what follows; each of its images: kind,
    version, bytes of the header, bytes of data (as nvidia-cutlass-dsl 4.8.1 has them)."""
    magic, _, header, size = struct.unpack("<IHHQ", ctypes.string_at(address, 16))
    if magic != FATBIN:
        yield address
        return
    at, end = address + header, address + header + size
    while at < end:
        kind, _, header, size = struct.unpack("<HHIQ", ctypes.string_at(at, 16))
        if kind == CUBIN:
            yield at + header
        at += header + size


def registers_of_elf(address: int) -> Mapping[str, int]:
    """Of a 64-bit ELF image."""
    head = ctypes.string_at(address, 64)
    if head[:4] != MAGIC:
        return {}
    table = struct.unpack_from("<Q", head, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", head, 0x3A)
    sections = []
    for at in range(count):
        name, kind, _, _, offset, length, link = struct.unpack("<IIQQQQI", ctypes.string_at(address + table + at * size, 44))
        sections.append(Section(name, kind, address + offset, length, link))
    titles = sections[names].data
    symbols: list[str] = []
    for one in sections:
        if one.kind == SYMBOLS:
            symbols = [text_at(sections[one.link].data, at) for (at,) in struct.iter_unpack("<I20x", one.data)]
    infos = [one.data for one in sections if titles[one.name :].startswith(INFO + b"\0")]
    return {symbols[symbol]: registers for info in infos for symbol, registers in counts_in(info)}


def counts_in(info: bytes) -> Iterator[tuple[int, int]]:
    """(symbol, registers) of the attributes of functions."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == WITH_SIZE:
            if attribute == REGISTER_COUNT:
                symbol, registers = struct.unpack_from("<II", info, at)
                yield symbol, registers
            at += length


def text_at(names: bytes, at: int) -> str:
    """A name that ends with a zero."""
    return names[at : names.index(b"\0", at)].decode()
