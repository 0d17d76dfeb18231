"""`python -m benchmarks.backward_costs`: writes docs/performance_backward.md, what a tile of the backward costs, ours and
flash-attn-4's.

Needs no GPU; with `--theirs` flash-attn-4 is measured here too (extra `peers`), and held against another emulator's counts.
One key tile meets a short and a long row of queries; the difference, over the number of 128 x 128 tiles between, leaves prologue,
epilogue and scheduling out. Causal: tiles that no mask touches. bf16, normally distributed inputs.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from attnspec.emulator import launch
from attnspec.emulator.report import Report
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.backward_arguments import prepare
from attnspec.runtime.call import Call
from attnspec.runtime.emulated_program import EmulatedProgram

import attnspec
from attnspec import stages
from benchmarks.metering import difference, metered_kernel
from benchmarks.tile_costs import EXTRA as FORWARD_EXTRA
from benchmarks.tile_costs import number

EXTRA = FORWARD_EXTRA | {"causal": "mask = kv <= q\n"}  # all but the first query tile see all keys
PAGE = Path(__file__).parents[1] / "docs" / "performance_backward.md"
SHORT, LONG = 512, 1024  # queries
KEYS = 128
TILES = (LONG - SHORT) / 128
AGREE = 0.02  # distance of two emulators' counts of flash-attn-4
ROWS = (
    "MUFU", "f32x2", "FMA", "ALU", "conversions", "barrier operations", "warp instructions", "MMA cycles", "TMEM bytes",
    "SMEM bytes by threads", "SMEM bytes by TMA", "DSMEM bytes", "bulk reductions", "global bytes added to",
    "global bytes by threads",
)  # fmt: skip
# Of flash-attn-4 4.0.0b36 by a counter that shares no code with this one (an emulator of its own), for 128 keys and 128 queries.
# Its `alu` has register negations (512) besides what we count; its barriers named ones and fences by themselves.
THEIRS: dict[tuple[str, int], dict[str, float]] = {
    ("dense", 128): {"MUFU": 512, "f32x2": 768, "FMA": 0, "ALU": 1780.5, "conversions": 512, "warp instructions": 6884,
                     "bulk reductions": 8, "MMA cycles": 2560},
    ("dense, one CTA", 128): {"MUFU": 512, "f32x2": 768, "FMA": 0, "ALU": 1679, "conversions": 512, "warp instructions": 6776,
                              "bulk reductions": 4, "MMA cycles": 2560},
    ("causal", 128): {"MUFU": 512, "f32x2": 768, "FMA": 0, "ALU": 3220.5, "conversions": 512, "warp instructions": 8310,
                      "bulk reductions": 8, "MMA cycles": 2560},
    ("softcap", 128): {"MUFU": 1024, "f32x2": 1792, "FMA": 512, "ALU": 2820.5, "conversions": 512, "warp instructions": 10540,
                       "bulk reductions": 8, "MMA cycles": 2560},
    ("dense", 64): {"MUFU": 512, "f32x2": 768, "FMA": 0, "ALU": 1687, "conversions": 512, "warp instructions": 6425,
                    "bulk reductions": 2, "MMA cycles": 1280},
    ("causal", 64): {"MUFU": 512, "f32x2": 768, "FMA": 0, "ALU": 3132.1, "conversions": 512, "warp instructions": 7858.1,
                     "bulk reductions": 2, "MMA cycles": 1280},
    ("softcap", 64): {"MUFU": 1024, "f32x2": 1792, "FMA": 512, "ALU": 2759, "conversions": 512, "warp instructions": 10105,
                      "bulk reductions": 2, "MMA cycles": 1280},
}  # fmt: skip
SPILLS = {"softcap": 66}  # loads from local memory a thread, of theirs at D 128


def ours(extra: str, dim: int, ctas: Literal[1, 2] = 1) -> tuple[Mapping[str, float], int, int]:
    """Counts of a tile of the backward that we emit; registers a thread, bytes of spills.

    ctas: that share a work tile, each with a key tile of its own.
    """
    attention = attnspec.build(f"attention tile\nhead_dim {dim}\n{EXTRA[extra]}", on="emulator", ctas=ctas)
    program = stages.kernel(attention, "sm100").program
    assert isinstance(program, EmulatedProgram)
    made, found = program.made_backward, []
    for queries in (SHORT, LONG):
        generator = torch.Generator().manual_seed(0)
        lengths = (queries, KEYS * ctas, KEYS * ctas, queries)
        q, k, v, dout = (torch.randn(1, rows, 1, dim, generator=generator).bfloat16() for rows in lengths)
        layout = check_call(attention.spec, q, k, v, Placing())
        call = Call(q, k, v, (), layout, False)
        results = program.forward(call)
        arguments = prepare(call, results, dout, torch.zeros(1, 1, queries), (), made.emitted.manifest["scratch"]).arguments
        run = partial(launch, made.binary.compiled, *arguments, ctas, checks="none", workers=1)
        found.append(metered_kernel(run, "backward_kernel"))
    short, long = found
    return difference(short, long, TILES * ctas), made.binary.registers, made.binary.frame_bytes


def theirs(extra: str, dim: int) -> Mapping[str, float]:
    """Counts of a tile of flash-attn-4's."""
    from tests.peers.cases import Case
    from tests.peers.float64 import draw
    from tests.peers.run import attention

    found = []
    for queries in (SHORT, LONG):
        case = Case(
            "", ((queries, KEYS),), dims=(dim, dim), causal=extra == "causal", softcap=15.0 if extra == "softcap" else 0.0
        )
        counts: list[Any] = []

        def run(function: Any, *arguments: Any, counts: list[Any] = counts) -> Report:
            started: list[Report] = []

            def again() -> Report:
                started.append(launch(function, *arguments, checks="none", workers=1))
                return started[0]

            counts.append(metered_kernel(again, "Backward"))
            return started[0]

        attention(case, draw(case), run, True)
        found.append(max(counts, key=lambda one: one.get("MMA cycles", 0)))
    short, long = found
    return difference(short, long, TILES)


def table(extra: str, dim: int, ctas: int, our: tuple[Mapping[str, float], int, int]) -> str:
    """One variant, ours of so many CTAs that share a work tile; theirs are of pairs at D 128."""
    counts, registers, frame = our
    other = THEIRS.get((extra, dim), {})
    lines = [
        f"## {extra}, D {dim}{', pairs of CTAs' if ctas > 1 else ''}",
        "",
        "| a 128 x 128 tile | ours | flash-attn-4 | ours / theirs |",
        "|---|---|---|---|",
    ]
    for row in ROWS:
        mine, count = counts.get(row, 0), other.get(row)
        ratio = f"{mine / count:.2f}" if count else ""
        lines.append(f"| {row} | {number(mine)} | {'' if count is None else number(count)} | {ratio} |")
    lines.append(f"| registers a thread, bytes spilled | {registers}, {frame} | | |")
    return "\n".join(lines)


HEAD = """# What a tile of the backward costs

Made by `python -m benchmarks.backward_costs`, which needs no GPU. One key tile meets {short} and {long} queries, and the
difference is divided by the tiles between. Causal: tiles that no mask touches. bf16, normally distributed inputs. What is counted
is said in [performance.md](performance.md); of flash-attn-4 4.0.0b36 another emulator, which shares no code with ours, counted
the PTX. At D 128 its CTAs work in pairs, ours where a title says so; at D 96 there are no figures of it. Of a pair, which has 256
keys, half of what both do: each tile of 128 keys is one CTA's. Which form is taken, `attnc explain` says: pairs for dense and
causal D 128 (but for calls of few keys), and for dense D 96.
"""


def main() -> None:
    """Measure, and write the page."""
    torch.set_num_threads(1)
    chosen: list[tuple[str, int, Literal[1, 2]]] = [(extra, dim, 1) for dim in (128, 96, 64) for extra in EXTRA]
    chosen[3:3] = [(extra, 128, 2) for extra in EXTRA]
    parts = [table(extra, dim, ctas, ours(extra, dim, ctas)) for extra, dim, ctas in chosen]
    PAGE.write_text("\n".join([HEAD.format(short=SHORT, long=LONG), *(f"{part}\n" for part in parts)]), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    if "--theirs" in sys.argv:
        from tests.peers import flash_attn_4

        flash_attn_4.load()
        for extra, dim in THEIRS:
            if extra in EXTRA:
                measured = theirs(extra, dim)
                apart = {row: measured.get(row, 0) / value for row, value in THEIRS[extra, dim].items() if value}
                print(extra, dim, {row: round(ratio, 3) for row, ratio in apart.items() if abs(ratio - 1) > AGREE})
    else:
        main()
