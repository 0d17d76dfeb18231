"""Tensor maps whose 128 bytes are kept: every field of the encoder varied alone. Not launched, only encoded."""

from dataclasses import replace

from tests.emulator.silicon.probe import TensorMap

PLAIN = TensorMap("tensor", "BFLOAT16", (128, 512), (256,), (64, 64), 128)
KINDS = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16", "FLOAT32_FTZ",
    "TFLOAT32", "TFLOAT32_FTZ",
)  # fmt: skip


def maps() -> dict[str, TensorMap]:
    found = {"plain": PLAIN}
    for kind in KINDS:
        found[f"kind {kind}"] = replace(PLAIN, kind=kind, sizes=(16, 512), box=(16, 16), swizzle=0)
    for swizzle, inner in ((0, 64), (32, 16), (64, 32), (128, 64)):
        found[f"swizzle {swizzle}"] = replace(PLAIN, swizzle=swizzle, box=(inner, 64))
    for promotion in range(4):
        found[f"promotion {promotion}"] = replace(PLAIN, promotion=promotion)
    found["nan"] = replace(PLAIN, fill_nan=True)
    for interleave in (16, 32):
        found[f"interleave {interleave}"] = TensorMap(
            "tensor", "BFLOAT16", (64, 32, 8), (128, 4096), (8, 8, 2), 32 if interleave == 32 else 0, interleave=interleave
        )
    for steps in ((1, 2), (1, 8), (2, 3), (8, 5)):
        found[f"steps {steps}"] = replace(PLAIN, steps=steps)
    for box in ((64, 1), (8, 256), (16, 7)):
        found[f"box {box}"] = replace(PLAIN, box=box)
    for rows in (1, 256, 511, 512, 513, 4096, 1 << 20, 1 << 32):
        found[f"rows {rows}"] = replace(PLAIN, sizes=(128, rows))
    for stride in (256, 272, 4096, 1 << 20, 1 << 32, 1 << 36, (1 << 40) - 16):
        found[f"stride {stride}"] = replace(PLAIN, sizes=(128, 2), strides=(stride,))
    found["rank 1"] = TensorMap("tensor", "FLOAT32", (1000,), (), (64,), 0)
    found["rank 3"] = TensorMap("tensor", "BFLOAT16", (128, 33, 5), (256, 256 * 40), (64, 16, 2), 128)
    found["rank 4"] = TensorMap("tensor", "BFLOAT16", (128, 33, 5, 3), (256, 10240, 102400), (64, 16, 2, 3), 128)
    found["rank 5"] = TensorMap("tensor", "FLOAT16", (128, 33, 5, 3, 7), (256, 10240, 102400, 512000), (64, 8, 2, 3, 4), 128)
    found["rank 5 far"] = replace(found["rank 5"], strides=(1 << 33, 3 << 34, 5 << 35, 7 << 36))
    found["rank 5 steps"] = replace(found["rank 5"], steps=(1, 2, 3, 4, 5))
    return found
