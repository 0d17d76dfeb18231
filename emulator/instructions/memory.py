"""Loads, stores and address conversions. PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.9.20 (cvta), 9.7.9.25 (mapa)."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import BITS, LANES, Act, Control, Pure, Rows, Rule, kind_of, only, unsupported
from attnspec.emulator.machine.address import RANK_BITS, by_cta, window
from attnspec.emulator.machine.layout import (
    CONSTANT_WINDOW,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    WINDOW_BITS,
)
from attnspec.emulator.ptx.operands import Address, Instruction, Symbol, Vector
from attnspec.emulator.translate.arithmetic import join64

ORDERINGS = ("weak", "volatile", "relaxed", "acquire", "release", "cta", "cluster", "gpu", "sys", "mmio", "nc")
CACHING = ("ca", "cg", "cs", "lu", "cv", "wb", "wt")
SPACES = ("global", "shared", "param", "local", "const")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
WINDOWS = {"param": PARAMETER_WINDOW, "local": LOCAL_WINDOW, "const": CONSTANT_WINDOW, "shared": SHARED_WINDOW}


def space_of(instruction: Instruction) -> str:
    """The state space of the opcode; generic if none is named."""
    words = [word.split("::")[0] for word in instruction.parts[1:]]
    return next((word for word in words if word in SPACES), "generic")


def shape_of(instruction: Instruction) -> tuple[str, int, int]:
    """Type, bytes of one value, and number of values of a load or store."""
    word = instruction.parts[-1]
    hints = [part for part in instruction.parts if part.startswith(("L1::", "L2::"))]
    spaces = [part for part in instruction.parts if part.split("::")[0] in SPACES]
    only(instruction, *ORDERINGS, *CACHING, *VECTORS, *hints, *spaces, word)
    kind = kind_of(instruction, {"f32": "u32", "f64": "u64", "f16": "u16"}.get(word, word))
    count = next((VECTORS[word] for word in instruction.parts if word in VECTORS), 1)
    return kind, BITS[kind] // 8, count


def load(instruction: Instruction) -> Rule:
    """ld, and ld with any ordering: memory here is sequentially consistent."""
    target, address = instruction.operands[:2]
    kind, size, count = shape_of(instruction)
    space = space_of(instruction)
    if kind == "u128":
        place = (address, address_width(instruction, address, space))
        return Act(partial(load_wide, space=space), (place,), ((target, kind),), unit=f"ld.{space}")
    signed = kind[0] == "s" and size < 4
    written = "u32" if signed else f"u{8 * size}"
    call = partial(load_lanes, space=space, size=size, count=count, signed=signed)
    targets = Rows(target.items) if isinstance(target, Vector) else target
    reads = ((address, address_width(instruction, address, space)),)
    plain = count == 1 and not any(word in instruction.parts for word in ("volatile", "acquire", "relaxed", "mmio"))
    batch = ("ld", space, size, signed, reads[0][1]) if plain else None
    return Act(call, reads, ((targets, written),), batch=batch, unit=f"ld.{space}")


def store(instruction: Instruction) -> Rule:
    """st"""
    address, value = instruction.operands[:2]
    kind, size, _ = shape_of(instruction)
    space = space_of(instruction)
    if kind == "u128":
        place = (address, address_width(instruction, address, space))
        return Act(partial(store_wide, space=space), (place, (value, kind)), unit=f"st.{space}")
    rows = Rows(value.items if isinstance(value, Vector) else (value,))
    call = partial(store_lanes, space=space, size=size)
    reads = ((address, address_width(instruction, address, space)), (rows, f"u{8 * size}"))
    return Act(call, reads, unit=f"st.{space}")


def address_width(instruction: Instruction, address: Any, space: str) -> str:
    """u32 for shared addresses in 32-bit registers, else u64."""
    if not isinstance(address, Address):
        raise unsupported(instruction, "wanted an address in brackets")
    if isinstance(address.base, Symbol):
        return "u32" if space == "shared" else "u64"
    return "u64" if getattr(address.base, "bits", 32) == 64 else "u32"


def lanes_of(mask: Any, *arrays: Any) -> tuple[Any, ...]:
    """The active lanes' part of arrays whose last axis is lanes."""
    return arrays if mask is None else tuple(array[..., mask] for array in arrays)


def spread(mask: Any, values: Any) -> Any:
    """Values of active lanes as all lanes; the others are 0."""
    if mask is None:
        return values
    result = np.zeros((*values.shape[:-1], LANES), values.dtype)
    result[..., mask] = values
    return result


def load_lanes(warp: Any, mask: Any, addresses: Any, space: str, size: int, count: int, signed: bool) -> Any:
    """What an ld gives: (lanes,), or (count, lanes); of addresses (n, lanes) the values (n, lanes)."""
    (active,) = lanes_of(mask, addresses)
    warp.acting = mask
    many = active.ndim > 1
    lanes = np.arange(LANES) if mask is None else np.flatnonzero(mask)
    if many:
        lanes = np.tile(lanes, len(active))
        values = spread(mask, read(warp, space, active.reshape(-1), size, 1, lanes).reshape(active.shape))
    else:
        values = spread(mask, read(warp, space, active, size, count, lanes))
    if signed:
        values = values.view(np.int8 if size == 1 else np.int16).astype(np.int32).view(np.uint32)
    return values if many or count > 1 else values[0]


def load_wide(warp: Any, mask: Any, addresses: Any, space: str) -> Any:
    """ld.b128"""
    return join64(*load_lanes(warp, mask, addresses, space, 8, 2, False))


def store_wide(warp: Any, mask: Any, addresses: Any, values: Any, space: str) -> None:
    """st.b128"""
    store_lanes(warp, mask, addresses, np.ascontiguousarray(values).view(np.uint64).reshape(LANES, 2).T, space, 8)


def read(warp: Any, space: str, addresses: Any, size: int, count: int, lanes: Any = 0) -> Any:
    """(count, addresses) values from any space. lanes: whose local memory each address is in."""
    at = window(addresses) if space == "generic" else WINDOWS.get(space, 0)
    if at == SHARED_WINDOW:
        parts = by_cta(warp, addresses)
        if len(parts) == 1:
            return parts[0][0].shared.load(warp, parts[0][2], size, count)
        result = np.empty((count, len(addresses)), f"u{size}")
        for cta, lanes, offsets in parts:
            result[:, lanes] = cta.shared.load(warp, offsets, size, count)
        return result
    if at == 0:
        return warp.machine.memory.load(warp, addresses, size, count)
    data = space_bytes(warp, at)
    index = (addresses.astype(np.int64) & (1 << WINDOW_BITS) - 1)[None] + np.arange(count)[:, None] * size
    if index.max() + size > data.shape[-1]:
        raise KernelFault("out-of-bounds", f"an access at byte {int(index.max())} of {data.shape[-1]} bytes of {space} memory")
    places = index[..., None] + np.arange(size)
    values = data[places] if data.ndim == 1 else data[np.broadcast_to(lanes, len(addresses))[None, :, None], places]
    return np.ascontiguousarray(values).view(f"u{size}")[..., 0]


def space_bytes(warp: Any, at: int) -> Any:
    """Bytes of the small spaces; of local memory an array a lane."""
    if at == PARAMETER_WINDOW:
        return np.frombuffer(warp.machine.launch.parameters, np.uint8)
    if at == CONSTANT_WINDOW:
        return np.frombuffer(warp.cta.layout.constant_bytes, np.uint8)
    if at == LOCAL_WINDOW:
        local = getattr(warp, "local", None)
        if local is None:
            local = warp.local = np.full((LANES, warp.cta.layout.local_bytes), 0xFF, np.uint8)
        return local
    raise KernelFault("out-of-bounds", f"generic address in no space ({at:#x})")


def store_lanes(warp: Any, mask: Any, addresses: Any, values: Any, space: str, size: int) -> None:
    """What an st does; of lanes that write to one place the highest wins."""
    active, values = lanes_of(mask, addresses, values)
    warp.acting = mask
    at = window(active) if space == "generic" else WINDOWS.get(space, 0)
    if at == SHARED_WINDOW:
        for cta, lanes, offsets in by_cta(warp, active):
            cta.shared.store(warp, offsets, values[:, lanes], size)
    elif at == 0:
        warp.machine.memory.store(warp, active, values, size)
    elif at == LOCAL_WINDOW:
        local = space_bytes(warp, at)
        lanes = np.arange(LANES) if mask is None else np.flatnonzero(mask)
        start = active.astype(np.int64) & (1 << WINDOW_BITS) - 1
        raw = np.ascontiguousarray(values.T).view(np.uint8)
        local[lanes[:, None], start[:, None] + np.arange(raw.shape[1])] = raw
    else:
        raise KernelFault("wrong-space", f"a store to {space} memory")


def to_generic(instruction: Instruction) -> Rule:
    """cvta.SPACE and cvta.to.SPACE"""
    target, source = instruction.operands
    space = space_of(instruction)
    if space == "global":
        return Pure("{0}", ((source, "u64"),), ((target, "u64"),))
    if space == "param":
        # A parameter's symbol is already its generic address.
        return Pure(f"{{0}} | np.uint64({PARAMETER_WINDOW})", ((source, "u64"),), ((target, "u64"),))
    base = WINDOWS[space]
    wide = instruction.parts[-1] in ("u64", "s64", "b64")
    if "to" in instruction.parts:
        code = f"{{0}} & np.uint64({(1 << WINDOW_BITS) - 1})"
        return Pure(code, ((source, "u64"),), ((target, "u64"),)) if wide else Pure("{0}", ((source, "u32"),), ((target, "u32"),))
    return Pure(f"{{0}} | np.uint64({base})", ((source, "u64"),), ((target, "u64"),))


def map_address(instruction: Instruction) -> Rule:
    """mapa: the same offset in another CTA of the cluster."""
    target, address, rank = instruction.operands
    if instruction.parts[-1] in ("u64", "b64"):
        code = f"{{0}} & np.uint64({~(0xFF << RANK_BITS) & (1 << 64) - 1}) | {{1}}.astype(np.uint64) << np.uint64({RANK_BITS})"
        return Pure(code, ((address, "u64"), (rank, "u32")), ((target, "u64"),))
    code = f"{{0}} & np.uint32({(1 << RANK_BITS) - 1}) | {{1}} << np.uint32({RANK_BITS})"
    return Pure(code, ((address, "u32"), (rank, "u32")), ((target, "u32"),))


def nothing(instruction: Instruction) -> Rule:
    """A hint without effect on results."""
    return Control("nothing")


TABLE = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": to_generic,
    "mapa": map_address,
    "prefetch": nothing,
    "prefetchu": nothing,
    "applypriority": nothing,
    "discard": nothing,
}
