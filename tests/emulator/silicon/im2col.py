"""TMA loads of convolution columns (im2col), and what `tensormap.replace` makes of a descriptor. Innermost dimension first."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Im2col, Probe, TensorMap, entry
from tests.emulator.silicon.tiles import ROOM, SHARED, START, numbered, wait

SIZE = {"BFLOAT16": 2, "FLOAT32": 4}


def word(number: int) -> str:
    """A word of the descriptor in %d4; the first is kept relative to the tensor."""
    return f"ld.b64 %d4, [%map+{8 * number}];\n" + ("" if number else "sub.u64 %d4, %d4, %tensor;\n")


def load(name: str, tile: Im2col, tensor: np.ndarray, place: tuple[int, ...], offsets: tuple[int, ...]) -> Probe:
    """`out[2064 bytes]`: shared memory after a load of one column (over 0xEE bytes), then 'complete'; the words of the descriptor
    less the tensor's address."""
    bytes = tile.box[0] * tile.box[1] * SIZE[tile.kind]
    instruction = f"cp.async.bulk.tensor.{len(place)}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    at, away = ", ".join(map(str, place)), ", ".join(f"%h{2 + i}" for i in range(len(offsets)))
    moves = "\n".join(f"mov.b16 %h{2 + i}, {offset};" for i, offset in enumerate(offsets))
    words = "\n".join(word(i) + f"st.global.b64 [%out+{ROOM + 16 + 8 * i}], %d4;" for i in range(16))
    body = f"""{START}
mov.b32 %r1, 0xEEEEEEEE;
st.shared.v4.b32 [%r23], {{%r1, %r1, %r1, %r1}};
fence.proxy.async;
bar.sync 0;
{moves}
@!%q0 bra ISSUED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {bytes};
{instruction} [%r20], [%map, {{{at}}}], [%r21], {{{away}}};
ISSUED:
{wait("WAIT", 0)}
bar.sync 0;
ld.shared.v4.b32 {{%r2, %r3, %r4, %r5}}, [%r23];
st.global.v4.b32 [%d1], {{%r2, %r3, %r4, %r5}};
@!%q0 bra END;
st.global.b32 [%out+{ROOM}], %r25;
{words}
END:"""
    out = Buffer("out", np.zeros((ROOM + 16 + 128) // 4, np.uint32), kept=True)
    text = entry(["map", "tensor", "out"], body, SHARED, maps=("map",))
    where = "_".join(map(str, (*place, *offsets))).replace("-", "m")
    return Probe(f"im2col_{name}_{where}", "5.5.4 im2col mode", text, (tile, Buffer("tensor", tensor), out))


def loads() -> list[Probe]:
    found = []
    tensor = numbered(4 * 10 * 16, np.uint16)
    shape = {"sizes": (16, 10, 4), "strides": (32, 320)}
    line = Im2col("tensor", "BFLOAT16", **shape, box=(16, 12), swizzle=32, lower=(-1,), upper=(-1,))
    for place, offset in (((0, -1, 0), 0), ((0, -1, 0), 1), ((0, -1, 0), 2), ((0, 4, 1), 1), ((8, 0, 3), 0), ((0, 3, 5), 0)):
        found.append(load("line", line, tensor, place, (offset,)))
    wide = Im2col("tensor", "BFLOAT16", **shape, box=(8, 24), lower=(-3,), upper=(2,))
    found += [load("wide", wide, tensor, place, (offset,)) for place, offset in (((0, -3, 0), 0), ((8, 5, 0), 2))]
    steps = Im2col("tensor", "BFLOAT16", **shape, box=(16, 10), lower=(-1,), upper=(0,), steps=(1, 2, 1))
    found += [load("steps", steps, tensor, place, (offset,)) for place, offset in (((0, -1, 0), 0), ((0, 1, 1), 1))]
    nan = Im2col("tensor", "BFLOAT16", **shape, box=(16, 6), lower=(-2,), upper=(1,), fill_nan=True)
    found.append(load("nan", nan, tensor, (0, -2, 0), (0,)))
    image = {"sizes": (8, 6, 5, 3), "strides": (32, 192, 960)}
    tensor = numbered(3 * 5 * 6 * 8, np.float32)
    plane = Im2col("tensor", "FLOAT32", **image, box=(8, 40), swizzle=32, lower=(-1, -2), upper=(-1, 1))
    for place in ((0, -1, -2, 0), (0, 2, 1, 1), (4, 4, 3, 2)):
        found += [load("plane", plane, tensor, place, offsets) for offsets in ((0, 0), (2, 1))]
    image = {"sizes": (8, 4, 3, 3, 2), "strides": (32, 128, 384, 1152)}
    tensor = numbered(2 * 3 * 3 * 4 * 8, np.float32)
    volume = Im2col("tensor", "FLOAT32", **image, box=(8, 32), lower=(-1, 0, -2), upper=(1, -1, 0))
    return found + [load("volume", volume, tensor, (0, -1, 0, -2, 0), offsets) for offsets in ((0, 0, 0), (1, 0, 2))]


REPLACED = (
    ("global_address", "b64", "%d8"), ("rank", "b32", "2"), ("rank", "b32", "3"), ("box_dim", "b32", "0, 31"),
    ("box_dim", "b32", "1, 17"), ("global_dim", "b32", "0, 1000"), ("global_dim", "b32", "1, 2000"),
    ("global_dim", "b32", "2, 3000"), ("global_stride", "b64", "0, %d9"), ("global_stride", "b64", "1, %d9"),
    ("element_stride", "b32", "1, 2"), ("elemtype", "b32", "9"), ("elemtype", "b32", "6"), ("interleave_layout", "b32", "1"),
    ("swizzle_mode", "b32", "1"), ("swizzle_mode", "b32", "2"), ("fill_mode", "b32", "1"),
)  # fmt: skip


def replaced() -> Probe:
    """`out[replacement, 16 words]`: one field replaced, each time of a fresh copy."""
    lines = [START, "mov.b64 %d8, 0x123456789abc0;\nmov.b64 %d9, 0x1234567890;\n@!%q0 bra END;"]
    for row, (field, type, value) in enumerate(REPLACED):
        lines += [word(number) + f"st.shared.b64 [%r20+{8 * number}], %d4;" for number in range(16)]
        lines.append(f"tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%r20], {value};")
        for at in range(0, 128, 8):
            lines.append(f"ld.shared.b64 %d4, [%r20+{at}];\nst.global.b64 [%out+{128 * row + at}], %d4;")
    tile = TensorMap("tensor", "BFLOAT16", (72, 20, 5, 3), (160, 3200, 16000), (64, 12, 1, 1), 128)
    out = Buffer("out", np.zeros((len(REPLACED), 16), np.uint64), kept=True)
    text = entry(["map", "tensor", "out"], "\n".join([*lines, "END:"]), SHARED, maps=("map",))
    return Probe(
        "maps_replaced", "9.7.9.28 tensormap.replace", text, (tile, Buffer("tensor", numbered(4800 * 5, np.uint16)), out)
    )


def probes() -> list[Probe]:
    return [*loads(), replaced()]
