"""wgmma: shared-memory layouts with small integers (exact), arithmetic with adversarial magnitudes, fragments.

Images are raw bytes in shared memory, so a wrong layout rule shows as wrong numbers.
"""

from dataclasses import dataclass

import numpy as np

from tests.emulator.silicon.operands import scramble, words
from tests.emulator.silicon.probe import Buffer, Probe, entry
from tests.emulator.silicon.products_values import accumulators, elements

IMAGE = 8192
SWIZZLE_CODE = {0: 0, 128: 1, 64: 2, 32: 3}
DEPTH = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
WHOLE = ("s8", "u8")


@dataclass(frozen=True)
class Side:
    """How one operand lies in shared memory; offsets in bytes. transposed: rows of the image run along M or N. start: where it
    starts in the image; base: the base offset of its descriptor."""

    swizzle: int = 128
    leading: int = 16
    stride: int = 1024
    advance: int = 32
    transposed: bool = False
    start: int = 0
    base: int = 0

    @property
    def descriptor(self) -> int:
        strides = (self.leading >> 4) << 16 | (self.stride >> 4) << 32
        return strides | self.base << 49 | SWIZZLE_CODE[self.swizzle] << 62


@dataclass(frozen=True)
class Product:
    name: str
    kind: str = "bf16"
    columns: int = 16
    steps: int = 1
    values: str = "integers"
    first: Side = Side()
    second: Side = Side()
    from_registers: bool = False
    accumulate: bool = True
    signs: tuple[int, int] = (1, 1)
    half: bool = False
    other: str = ""  # the format of B, if another
    saturates: bool = False

    @property
    def registers(self) -> int:
        return self.columns // (4 if self.half else 2)

    @property
    def instruction(self) -> str:
        result = "f16" if self.half else "s32" if self.kind in WHOLE else "f32"
        types = f"{result}.{self.kind}.{self.other or self.kind}{'.satfinite' if self.saturates else ''}"
        return f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{DEPTH[self.kind]}.{types}"


def text(product: Product) -> str:
    count = product.registers
    names = ", ".join(f"%c{i}" for i in range(count))
    lines = [
        f".reg .b32 %c<{count}>;",
        "shl.b32 %r1, %thread, 4;\ncvt.u64.u32 %d1, %r1;\nadd.u64 %d2, %a, %d1;\nadd.u64 %d3, %b, %d1;",
    ]
    lines.append("mov.u32 %r2, left;\nmov.u32 %r3, right;\nadd.u32 %r4, %r2, %r1;\nadd.u32 %r5, %r3, %r1;")
    for chunk in range(IMAGE // 2048):
        for source, target in (("%d2", "%r4"), ("%d3", "%r5")):
            lines.append(f"ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [{source}+{chunk * 2048}];")
            lines.append(f"st.shared.v4.b32 [{target}+{chunk * 2048}], {{%r6, %r7, %r8, %r9}};")
    lines.append(
        f"mul.lo.u32 %r10, %thread, {count * 4};\ncvt.u64.u32 %d4, %r10;\nadd.u64 %c, %c, %d4;\nadd.u64 %out, %out, %d4;"
    )
    lines += [f"ld.global.b32 %c{i}, [%c+{4 * i}];" for i in range(count)]
    lines.append("shr.u32 %r2, %r2, 4;\nshr.u32 %r3, %r3, 4;\ncvt.u64.u32 %d5, %r2;\ncvt.u64.u32 %d6, %r3;")
    if product.first.start or product.second.start:
        lines.append(f"add.u64 %d5, %d5, {product.first.start >> 4};\nadd.u64 %d6, %d6, {product.second.start >> 4};")
    lines.append(f"or.b64 %d5, %d5, {product.first.descriptor:#x};\nor.b64 %d6, %d6, {product.second.descriptor:#x};")
    if product.from_registers:
        lines += [
            f"ld.global.v4.b32 {{%r{12 + 4 * s}, %r{13 + 4 * s}, %r{14 + 4 * s}, %r{15 + 4 * s}}}, [%d2+{s * 2048}];"
            for s in range(product.steps)
        ]
    lines.append(f"fence.proxy.async;\nbar.sync 0;\nsetp.ne.u32 %q0, {int(product.accumulate)}, 0;\nwgmma.fence.sync.aligned;")
    for step in range(product.steps):
        left = "{" + ", ".join(f"%r{12 + 4 * step + i}" for i in range(4)) + "}" if product.from_registers else "%d5"
        options = "%q0" if product.kind in WHOLE else f"%q0, {product.signs[0]}, {product.signs[1]}"
        if DEPTH[product.kind] == 16:
            options += "" if product.from_registers else f", {int(product.first.transposed)}"
            options += f", {int(product.second.transposed)}"
        lines.append(f"{product.instruction} {{{names}}}, {left}, %d6, {options};")
        lines.append(f"add.u64 %d5, %d5, {product.first.advance >> 4};\nadd.u64 %d6, %d6, {product.second.advance >> 4};")
    lines.append("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.b32 [%out+{4 * i}], %c{i};" for i in range(count)]
    shared = f".shared .align 1024 .b8 left[{IMAGE}];\n.shared .align 1024 .b8 right[{IMAGE}];"
    return entry(["a", "b", "c", "out"], "\n".join(lines), shared)


def probe(product: Product) -> Probe:
    """`out[thread, accumulator register]`; a and b are the images (a: fragments `[step, thread, 4]` if from registers)."""
    seed = int(scramble(sum(map(ord, product.name)), 1)[0] & np.uint64(0xFFFF))
    kind = "e4m3" if product.kind in WHOLE else product.kind  # any bytes but NaN do for whole numbers
    left, right = elements(product.values, kind, IMAGE, seed)
    start = accumulators(product.values, 128 * product.registers, seed + 9)
    if product.half:
        start = (words(seed, start.size) & np.uint32(0x83FF83FF)) | np.uint32(0x38003400)
    out = Buffer("out", np.zeros((128, product.registers), np.uint32), kept=True)
    parameters = (Buffer("a", left), Buffer("b", right), Buffer("c", start), out)
    return Probe("wgmma_" + product.name, "9.7.15 wgmma; FACTS C11, C12", text(product), parameters)


def layouts() -> list[Product]:
    """Both operands in each layout; 64 columns, so every atom of both is read."""
    sides = {
        "none_a": Side(0, 128, 256, 512),
        "none_b": Side(0, 1024, 128, 512),
        "32": Side(32, 16, 256, 2048),
        "64": Side(64, 16, 512),
        "128": Side(128, 16, 1024),
        "none_a_mn": Side(0, 128, 1024, 512, True),
        "none_b_mn": Side(0, 1024, 128, 512, True),
        "32_mn": Side(32, 512, 256, 2048, True),
        "64_mn": Side(64, 1024, 512, 2048, True),
        "128_mn": Side(128, 4096, 1024, 2048, True),
    }
    found = [Product(f"layout_{n}", columns=64, steps=2, first=s, second=s) for n, s in sides.items()]
    found.append(Product("layout_mixed", "f16", columns=64, steps=2, first=sides["128"], second=sides["64_mn"]))
    found.append(Product("layout_128_two_atoms", columns=128, first=sides["128"], second=Side(128, 4096, 1024, 2048, True)))
    found.append(Product("registers", "bf16", columns=64, steps=4, from_registers=True))
    found.append(Product("registers_mn", "f16", columns=64, steps=2, from_registers=True, second=sides["128_mn"]))
    found += [Product("fresh", accumulate=False), Product("negated", signs=(-1, 1)), Product("negated_both", signs=(-1, -1))]
    return found


def magnitudes() -> list[Product]:
    found = []
    for kind in ("bf16", "f16"):
        for values in ("normal", "wide", "tiny", "special", "cancel", "huge", "subnormal"):
            found.append(Product(f"{kind}_{values}", kind, columns=32, values=values))
            found.append(Product(f"{kind}_{values}_chain", kind, columns=16, steps=4, values=values))
        found.append(Product(f"{kind}_registers_chain", kind, columns=16, steps=4, values="wide", from_registers=True))
    for values in ("normal", "wide", "cancel"):
        found.append(Product(f"half_{values}", "f16", columns=32, values=values, half=True))
        found.append(Product(f"tf32_{values}", "tf32", values=values))
        found += [Product(f"{kind}_{values}", kind, values=values) for kind in ("e4m3", "e5m2")]
    return found


def whole() -> list[Product]:
    """Integer products, also with sums that do not fit: the accumulators of "huge" are near the largest ones."""
    pairs = (("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8"))
    found = [Product(f"whole_{a}_{b}", a, values="normal", other=b) for a, b in pairs]
    found += [Product(f"whole_registers_{a}", a, values="wide", from_registers=True, steps=2) for a in WHOLE]
    found += [Product(f"whole_{a}_{b}_satfinite", a, values="huge", other=b, saturates=True, steps=2) for a, b in pairs[:2]]
    return [*found, Product("whole_wraps", "s8", values="huge", steps=2), Product("whole_fresh", "s8", 64, accumulate=False)]


def offsets() -> list[Product]:
    """Swizzled tiles that start inside a pattern, with and without the base offset that says so."""
    found = []
    for start, base in ((128, 0), (128, 1), (384, 3), (640, 2)):
        side = Side(128, 16, 1024, start=start, base=base)
        found.append(Product(f"offset_{start}_base_{base}", columns=16, first=side, second=Side()))
        found.append(Product(f"offset_{start}_base_{base}_b", columns=16, first=Side(), second=side))
    return found


def probes() -> list[Probe]:
    return [probe(product) for product in layouts() + magnitudes() + whole() + offsets()]
