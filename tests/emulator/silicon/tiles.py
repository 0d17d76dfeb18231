"""TMA tiles: shared images of loads in every swizzle with boxes over each edge, clipped stores, tile reductions."""

import numpy as np

from tests.emulator.silicon.operands import float_triples, integer_triples
from tests.emulator.silicon.probe import Buffer, Early, Probe, TensorMap, entry, read_barrier

ROOM = 2048
SHARED = f".shared .align 1024 .b8 room[{ROOM}];\n.shared .align 8 .b64 bar;"
START = """mov.u32 %r20, room;
mov.u32 %r21, bar;
shl.b32 %r22, %thread, 4;
add.u32 %r23, %r20, %r22;
cvt.u64.u32 %d1, %r22;
add.u64 %d1, %out, %d1;
setp.eq.u32 %q0, %thread, 0;
@%q0 mbarrier.init.shared::cta.b64 [%r21], 1;
@%q0 fence.mbarrier_init.release.cluster;
"""
SIZE = {"UINT8": 1, "UINT16": 2, "BFLOAT16": 2, "FLOAT16": 2, "FLOAT32": 4, "UINT32": 4, "INT32": 4}


def box_bytes(tile: TensorMap) -> int:
    steps = tile.steps or (1,) * len(tile.box)
    return SIZE[tile.kind] * int(np.prod([-(-b // s) for b, s in zip(tile.box, steps)]))


def wait(label: str, parity: int) -> str:
    """Bounded: a barrier that never completes leaves %q1 false instead of a hang."""
    return f"""mov.b32 %r24, 0;
{label}:
add.u32 %r24, %r24, 1;
mbarrier.try_wait.parity.shared::cta.b64 %q1, [%r21], {parity};
@%q1 bra {label}_DONE;
setp.lt.u32 %q2, %r24, 500;
@%q2 bra {label};
{label}_DONE:
selp.u32 %r25, 1, 0, %q1;"""


def load(name: str, tile: TensorMap, tensor: np.ndarray, offset: int, coordinates: tuple[int, ...]) -> Probe:
    """`out[2064 bytes]`: shared memory after a load to `offset` (over 0xEE bytes), then 'complete' and the barrier's word."""
    rank = len(tile.box)
    at = ", ".join(map(str, coordinates))
    instruction = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    body = f"""{START}
mov.b32 %r1, 0xEEEEEEEE;
st.shared.v4.b32 [%r23], {{%r1, %r1, %r1, %r1}};
fence.proxy.async;
bar.sync 0;
@!%q0 bra ISSUED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {box_bytes(tile)};
{instruction} [%r20+{offset}], [%map, {{{at}}}], [%r21];
ISSUED:
{wait("WAIT", 0)}
{read_barrier("%r21", "%d2")}
bar.sync 0;
ld.shared.v4.b32 {{%r2, %r3, %r4, %r5}}, [%r23];
st.global.v4.b32 [%d1], {{%r2, %r3, %r4, %r5}};
@%q0 st.global.b32 [%out+{ROOM}], %r25;
@%q0 st.global.b64 [%out+{ROOM + 8}], %d2;"""
    out = Buffer("out", np.zeros((ROOM + 16) // 4, np.uint32), kept=True)
    text = entry(["map", "tensor", "out"], body, SHARED, maps=("map",))
    where = "_".join(map(str, coordinates)).replace("-", "m")
    section = "9.7.9.27 cp.async.bulk.tensor; FACTS C9"
    return Probe(f"tile_{name}_to{offset}_at_{where}", section, text, (tile, Buffer("tensor", tensor), out))


def loads(name: str, tile: TensorMap, tensor: np.ndarray, cases: list[tuple[int, ...]]) -> list[Probe]:
    """One probe a case: (byte offset of the tile in shared memory, coordinates...)."""
    return [load(name, tile, tensor, offset, coordinates) for offset, *coordinates in cases]


PLANE = [(0, 0, 0), (0, 16, 4), (0, -8, 2), (0, 8, -4), (0, 56, 5), (0, 8, 15), (0, -104, 0), (384, -8, -3), (256, 64, 18),
         (384, 8, 3), (128, 0, 0), (0, 0, 1 << 20)]  # fmt: skip
FLOAT_PLANE = [(0, 0, 0), (0, 12, 4), (0, -4, 2), (128, 4, -4), (0, 20, 15), (384, -16, 0)]


def numbered(count: int, dtype: type) -> np.ndarray:
    """Every element different (bytes: modulo 251), none zero."""
    return (np.arange(count) % (251 if dtype is np.uint8 else 1 << 30) + 1).astype(dtype)


def plane_loads() -> list[Probe]:
    found = []
    tensor = numbered(20 * 80, np.uint16)
    for swizzle, inner in ((0, 24), (0, 64), (32, 16), (64, 32), (128, 64), (128, 32), (64, 16), (128, 8)):
        tile = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (inner, 12), swizzle)
        found += loads(f"plane_{swizzle}_{inner}", tile, tensor, PLANE)
    nan = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (64, 12), 128, fill_nan=True)
    sparse = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (32, 12), 64, steps=(1, 2))
    found += loads("plane_nan", nan, tensor, PLANE[:8]) + loads("plane_steps", sparse, tensor, PLANE[:8])
    floats = TensorMap("tensor", "FLOAT32", (24, 20), (112,), (16, 12), 64, fill_nan=True)
    found += loads("plane_f32", floats, numbered(20 * 28, np.float32), FLOAT_PLANE)
    small = TensorMap("tensor", "UINT8", (200, 10), (208,), (64, 8), 64)
    cases = [(0, 0, 0), (0, 144, 4), (128, -16, -2), (0, 192, 9)]
    return found + loads("plane_u8", small, numbered(10 * 208, np.uint8), cases)


def crooked_loads() -> list[Probe]:
    """Innermost coordinates that are no multiple of 16 bytes: the GPU may refuse them (see device.json)."""
    tensor = numbered(20 * 80, np.uint16)
    tile = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (64, 12), 128)
    found = loads("crooked_128", tile, tensor, [(0, 1, 0), (0, 4, 0), (0, -5, 2), (0, 3, 25)])
    tile = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (24, 12), 0)
    found += loads("crooked_0", tile, tensor, [(0, 2, 0), (0, -4, 0), (64, 0, 0)])
    floats = TensorMap("tensor", "FLOAT32", (24, 20), (112,), (16, 12), 64)
    return found + loads("crooked_f32", floats, numbered(20 * 28, np.float32), [(0, 1, 0), (0, 2, 0), (0, -1, 0)])


def volume_loads() -> list[Probe]:
    found = []
    cases = [(0, 0, 0, 0), (0, 4, 2, 1), (128, -4, 1, 2), (0, 16, -1, 3), (0, 4, 5, -1), (0, 16, 6, 4), (0, 0, 0, 5)]
    for swizzle in (0, 32):
        tile = TensorMap("tensor", "FLOAT32", (20, 7, 5), (96, 768), (8, 3, 2), swizzle)
        found += loads(f"volume_{swizzle}", tile, numbered(5 * 192, np.float32), cases)
    tile = TensorMap("tensor", "BFLOAT16", (64, 5, 3, 2), (144, 720, 2160), (64, 3, 2, 2), 128)
    found += loads("rank4", tile, numbered(2 * 1080, np.uint16), [(0, 0, 0, 0, 0), (0, -8, 3, 2, 1), (128, 8, -1, -1, -1)])
    tile = TensorMap("tensor", "BFLOAT16", (16, 3, 3, 2, 2), (32, 96, 288, 576), (16, 2, 2, 2, 2), 32)
    cases = [(0, 0, 0, 0, 0, 0), (0, -8, 2, 1, 1, 1), (256, 8, -1, 2, -1, 0)]
    found += loads("rank5", tile, numbered(576, np.uint16), cases)
    line = TensorMap("tensor", "FLOAT32", (50,), (), (32,), 0)
    return found + loads("line", line, numbered(50, np.float32), [(0, 0), (0, 40), (128, -8), (0, 52)])


def packed(buffer: str, swizzle: int, box: tuple[int, int], longest: int) -> TensorMap:
    """Rows of 160 bytes seen twice, so that a box can be cut off after any row: row r of a sequence of n rows that ends at row e
    is at (longest - n + r, e). The map starts `longest` rows before the buffer, where nothing need be.
    """
    return Early(buffer, "BFLOAT16", (72, longest, 21), (160, 160), (*box, 1), swizzle, before=160 * longest)


def packed_loads() -> list[Probe]:
    """Sequences of 5, 20 and one row, from a row of theirs on; then the same with a map that starts gigabytes before, and a box
    wholly outside, which the GPU refuses there: see device.json."""
    tensor, found = numbered(20 * 80, np.uint16), []
    for longest in (20, 1 << 24):
        rows = [(0, 5, 9), (8, 20, 20), (0, 1, 1), (3, 5, 9)] + ([(0, 0, 7)] if longest > 20 else [])
        cases = [(0, 8, longest - count + row, end) for row, count, end in rows]
        found += loads(f"packed_{longest}", packed("tensor", 128, (64, 12), longest), tensor, cases)
    return found


def store(name: str, tile: TensorMap, cases: list[tuple[int, ...]]) -> Probe:
    """Tiles of six rows, numbered by shared byte pair, stored one after the other into `out[20, 80]`, columns 72 on outside."""
    lines = [START, "mad.lo.u32 %r1, %thread, 8, 0x100;"]
    for pair in range(4):
        lines.append(f"add.u32 %r2, %r1, {2 * pair + 1};\nshl.b32 %r2, %r2, 16;")
        lines.append(f"add.u32 %r3, %r1, {2 * pair};\nor.b32 %r{4 + pair}, %r2, %r3;")
    lines.append("st.shared.v4.b32 [%r23], {%r4, %r5, %r6, %r7};\nfence.proxy.async;\nbar.sync 0;\n@!%q0 bra END;")
    instruction = f"cp.async.bulk.tensor.{len(tile.sizes)}d.global.shared::cta.tile.bulk_group"
    for offset, *at in cases:
        lines.append(f"{instruction} [%map, {{{', '.join(map(str, at))}}}], [%r20+{offset}];")
        lines.append("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;")
    out = Buffer("out", np.zeros((20, 80), np.uint16), kept=True)
    text = entry(["map", "out"], "\n".join([*lines, "END:"]), SHARED, maps=("map",))
    return Probe(f"tile_store_{name}", "9.7.9.27 cp.async.bulk.tensor; FACTS C9", text, (tile, out))


def stores() -> list[Probe]:
    """Boxes inside and past the far edges; then single ones the GPU may refuse: negative or crooked coordinates."""

    def plane(swizzle: int, inner: int) -> TensorMap:
        return TensorMap("out", "BFLOAT16", (72, 20), (160,), (inner, 6), swizzle)

    cases: list[tuple[int, ...]] = [(0, 8, 3), (128, 16, 10), (0, 64, 17), (0, 80, 3), (256, 32, 16), (0, 0, 25)]
    found = [store(str(swizzle), plane(swizzle, inner), cases) for swizzle, inner in ((0, 24), (32, 16), (64, 32), (128, 64))]
    crooked = {"left": (0, -8, 2), "above": (0, 8, -2), "between": (0, 4, 2), "shared": (64, 8, 2)}
    found += [store(f"crooked_{name}", plane(0, 24), [case]) for name, case in crooked.items()]
    for longest in (20, 1 << 24):
        cut = [(0, 8, longest - count + row, end) for row, count, end in ((0, 3, 5), (2, 6, 12), (0, 0, 13), (0, 6, 19))]
        found.append(store(f"packed_{longest}", packed("out", 128, (64, 6), longest), cut))
    return found


REDUCTIONS = {
    "FLOAT32": ("add",), "BFLOAT16": ("add", "min", "max"), "FLOAT16": ("add", "min", "max"),
    "UINT32": ("add", "min", "max", "inc", "dec", "and", "or", "xor"), "INT32": ("min", "max", "add"),
}  # fmt: skip


def reductions() -> list[Probe]:
    """Operation i reduces the same 2048-byte tile into rows 8i to 8i+7 of the tensor, columns from byte 16 on."""
    found = []
    first, second, _ = float_triples(1024, seed=91)
    for kind, operations in REDUCTIONS.items():
        if "INT" in kind:
            first, second, _ = integer_triples(1024, seed=92)
        lines = [START, "cvt.u64.u32 %d2, %r22;\nadd.u64 %d2, %b, %d2;\nld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d2];"]
        lines.append("st.shared.v4.b32 [%r23], {%r1, %r2, %r3, %r4};\nfence.proxy.async;\nbar.sync 0;\n@!%q0 bra END;")
        at = 16 // SIZE[kind]
        for row, name in enumerate(operations):
            lines.append(
                f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.tile.bulk_group [%map, {{{at}, {8 * row}}}], [%r20];"
            )
        lines.append("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:")
        width = 256 // SIZE[kind]
        tile = TensorMap("out", kind, (width, 8 * len(operations)), (256,), (width, 8), 0)
        out = Buffer("out", np.tile(first[:512].reshape(8, 64), (len(operations), 1)), kept=True)
        text = entry(["map", "b", "out"], "\n".join(lines), SHARED, maps=("map",))
        section = "9.7.9.27 cp.reduce.async.bulk.tensor"
        found.append(Probe(f"tile_reduce_{kind.lower()}", section, text, (tile, Buffer("b", second[:512]), out)))
    return found


def multicast() -> Probe:
    """Rank 0 sends a tile to both CTAs, rank 1 one to itself through a mask; `out[cta, 2048 bytes]`."""
    tile = TensorMap("tensor", "BFLOAT16", (72, 20), (160,), (64, 8), 128)
    instruction = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    body = f"""{START}
mov.b32 %r1, 0xEEEEEEEE;
st.shared.v4.b32 [%r23], {{%r1, %r1, %r1, %r1}};
fence.proxy.async;
mov.u32 %r2, %cluster_ctarank;
setp.eq.u32 %q3, %r2, 0;
mov.u32 %r3, 1024;
selp.u32 %r3, %r3, 2048, %q3;
@%q0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], %r3;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.b16 %h1, 3;
mov.b16 %h2, 2;
@!%q0 bra ISSUED;
@%q3 {instruction} [%r20], [%map, {{8, -3}}], [%r21], %h1;
@!%q3 {instruction} [%r20+1024], [%map, {{16, 15}}], [%r21], %h2;
ISSUED:
{wait("WAIT", 0)}
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r23];
mul.wide.u32 %d2, %cta, 2048;
add.u64 %d1, %d1, %d2;
st.global.v4.b32 [%d1], {{%r4, %r5, %r6, %r7}};"""
    out = Buffer("out", np.zeros((2, 512), np.uint32), kept=True)
    text = entry(["map", "tensor", "out"], body, SHARED, maps=("map",))
    tensor = Buffer("tensor", numbered(20 * 80, np.uint16))
    return Probe("tile_multicast", "9.7.9.27 multicast::cluster", text, (tile, tensor, out), grid=2, cluster=2)


def probes() -> list[Probe]:
    return plane_loads() + volume_loads() + packed_loads() + crooked_loads() + stores() + reductions() + [multicast()]
