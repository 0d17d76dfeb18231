"""mma.sync: every form with small integers (exact), and with magnitudes that show how sums are cut."""

import numpy as np

from tests.emulator.silicon.operands import scramble, words
from tests.emulator.silicon.probe import Buffer, Probe, entry
from tests.emulator.silicon.products_values import accumulators, elements

REPEATS = 16  # products of each form, of different operands
DEPTHS = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (16, 32), "e5m2": (16, 32), "s8": (16, 32), "u8": (16, 32)}
EACH = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}
WHOLE = ("s8", "u8")


def product(kind: str, k: int, result: str, values: str, saturates: bool = False) -> Probe:
    """`out[product, lane, register]`; a, b, c likewise. One warp."""
    counts = {"a": k // (2 * EACH[kind]), "b": k // (4 * EACH[kind]), "c": 2 if result == "f16" else 4}
    name = f"mma_{kind}_k{k}_{result}_{values}{'_satfinite' if saturates else ''}"
    seed = int(scramble(sum(map(ord, name)), 1)[0] & np.uint64(0xFFFF))
    bits = "e4m3" if kind in WHOLE else kind
    left, right = elements(values, bits, 32 * 4 * REPEATS * counts["a"], seed)
    start = accumulators(values, 32 * REPEATS * counts["c"], seed + 9)
    if result == "f16":
        start = (words(seed, start.size) & np.uint32(0x83FF83FF)) | np.uint32(0x38003800)
    right = right[: len(right) * counts["b"] // counts["a"]]
    given = {"a": left.view(np.uint32), "b": right.view(np.uint32), "c": start}
    places = {"a": 1, "b": 5, "c": 9}
    lines = []
    for letter, count in counts.items():
        lines.append(f"mad.wide.u32 %{letter}, %lane, {4 * count}, %{letter};")
    lines.append(f"mad.wide.u32 %out, %lane, {4 * counts['c']}, %out;")
    for repeat in range(REPEATS):
        for letter, count in counts.items():
            at = 128 * count * repeat
            lines += [f"ld.global.b32 %r{places[letter] + n}, [%{letter}+{at + 4 * n}];" for n in range(count)]
        vectors = ["{" + ", ".join(f"%r{places[one] + n}" for n in range(counts[one])) + "}" for one in "abc"]
        target = "{" + ", ".join(f"%r{13 + n}" for n in range(counts["c"])) + "}"
        words_of = f"{'satfinite.' if saturates else ''}{result}.{kind}.{kind}.{result}"
        lines.append(f"mma.sync.aligned.m16n8k{k}.row.col.{words_of} {target}, {', '.join(vectors)};")
        at = 128 * counts["c"] * repeat
        lines += [f"st.global.b32 [%out+{at + 4 * n}], %r{13 + n};" for n in range(counts["c"])]
    out = Buffer("out", np.zeros((REPEATS, 32, counts["c"]), np.uint32), kept=True)
    parameters = (*(Buffer(letter, array) for letter, array in given.items()), out)
    text = entry(["a", "b", "c", "out"], "\n".join(lines))
    if kind in ("e4m3", "e5m2"):
        text = text.replace(".version 8.6", ".version 8.7")  # which brought K of 16 and results in f16
    return Probe(name, "9.7.14.5 mma.sync; FACTS C11", text, parameters, block=32)


def probes() -> list[Probe]:
    found = []
    for kind, depths in DEPTHS.items():
        for k in depths:
            if kind in WHOLE:
                found.append(product(kind, k, "s32", "normal"))
                found.append(product(kind, k, "s32", "huge", True))
                continue
            found += [product(kind, k, "f32", values) for values in ("integers", "normal", "wide", "cancel", "special")]
            if kind not in ("bf16", "tf32"):
                found += [product(kind, k, "f16", values) for values in ("normal", "cancel")]
    return found
