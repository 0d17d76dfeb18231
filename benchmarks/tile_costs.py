"""`python -m benchmarks.tile_costs`: writes docs/performance.md, what a tile of the forward costs, ours and flash-attn-4's.

Needs the extra `peers`, and no GPU. One work tile (256 queries of one head; 512 of a pair of CTAs) walks a short and a long row
of keys; the difference, over the number of 128 x 128 tiles between, leaves prologue, epilogue and scheduling out. Causal: tiles
that no mask touches. bf16, normally distributed scores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from attnspec.emulator import launch
from attnspec.emulator.report import Report
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.binary import read_resources
from attnspec.runtime.call import Call
from attnspec.runtime.emulated_program import EmulatedProgram
from attnspec.runtime.kernel_arguments import empty_results, forward_arguments

import attnspec
from attnspec import stages
from benchmarks.metering import difference, metered
from tests.peers import flash_attn_4
from tests.peers.cases import Case
from tests.peers.float64 import draw
from tests.peers.run import attention

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SHORT, LONG = 768, 1280  # keys
ROWS = (
    "MUFU", "f32x2", "FMA", "MUFU and FMA cycles", "the busier of the two", "ALU", "integer multiplies", "conversions",
    "barrier operations", "warp instructions", "MMA cycles", "TMEM bytes", "SMEM bytes by threads", "SMEM bytes by TMA",
    "global bytes by threads",
)  # fmt: skip
EXTRA = {"dense": "", "causal": "mask = causal\n", "softcap": "score = softcap(score, 15.0)\n"}
# Of flash-attn-4 4.0.0b36 by a counter that shares no code with this one (an emulator of its own), for 256 x 128, PTX too.
INDEPENDENT: dict[tuple[str, int], dict[str, float]] = {
    ("dense", 128): {"MUFU": 840, "f32x2": 1600, "FMA": 48, "ALU": 1438, "conversions": 512, "barrier operations": 78,
                     "warp instructions": 8393, "MMA cycles": 2048},
    ("causal", 128): {"MUFU": 904, "f32x2": 1408, "FMA": 48, "ALU": 1283, "conversions": 512, "barrier operations": 82,
                      "warp instructions": 7878, "MMA cycles": 2048},
    ("softcap", 128): {"MUFU": 1864, "f32x2": 2112, "FMA": 1072, "ALU": 2478, "conversions": 512, "barrier operations": 78,
                       "warp instructions": 13065, "MMA cycles": 2048},
    ("dense", 64): {"MUFU": 904, "f32x2": 1408, "FMA": 48, "ALU": 1270, "conversions": 512, "barrier operations": 82,
                    "warp instructions": 7821, "MMA cycles": 1024},
    ("causal", 64): {"MUFU": 904, "f32x2": 1408, "FMA": 48, "ALU": 1286, "conversions": 512, "barrier operations": 82,
                     "warp instructions": 7845, "MMA cycles": 1024},
    ("softcap", 64): {"MUFU": 1928, "f32x2": 1920, "FMA": 1072, "ALU": 2326, "conversions": 512, "barrier operations": 82,
                      "warp instructions": 12517, "MMA cycles": 1024},
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """counts: of a 128 x 128 tile. registers: of a thread at launch; frame: bytes of spills a thread. pairs: of CTAs work."""

    counts: Mapping[str, float]
    registers: int
    frame: int
    pairs: bool = False


def ours(extra: str, dim: int, query_tiles: Literal[1, 2] = 2) -> Cost:
    """Of the forward that we emit."""
    spec = attnspec.build(f"attention tile\nhead_dim {dim}\n{EXTRA[extra]}", on="emulator", query_tiles=query_tiles)
    program = stages.kernel(spec, "sm100").program
    assert isinstance(program, EmulatedProgram)
    found = []
    for keys in (SHORT, LONG):
        drawn = draw(Case("", ((128 * query_tiles, keys),), dims=(dim, dim)))
        q, k, v = (one[None] for one in (drawn.q, drawn.k, drawn.v))
        call = Call(q, k, v, (), check_call(spec.spec, q, k, v, Placing()), False)
        out, lse = empty_results(call, dim)
        arguments = (*forward_arguments(call, out, lse), 1)
        found.append(metered(partial(launch, program.binary.compiled, *arguments, checks="none", workers=1))[0])
    tiles = tiles_between(1) * query_tiles / 2
    return Cost(with_cycles(difference(*found, tiles)), program.binary.registers, program.binary.frame_bytes)


def theirs(extra: str, dim: int) -> Cost:
    """Of flash-attn-4's."""
    found, compiled = [], []
    for keys in (SHORT, LONG):
        # At D 128 without a mask its CTAs work in pairs, on 512 queries.
        rows = 512 if extra != "causal" and dim == 128 else 256
        case = Case("", ((rows, keys),), dims=(dim, dim), causal=extra == "causal", softcap=15.0 if extra == "softcap" else 0.0)

        def run(function: Any, *arguments: Any) -> Report:
            counts, report = metered(partial(launch, function, *arguments, checks="none", workers=1))
            found.append(counts)
            compiled.append((function, report.launches[0]))
            return report

        attention(case, draw(case), run, False)
    function, launched = compiled[-1]
    ctas = launched.grid[0] * launched.grid[1] * launched.grid[2]
    return Cost(
        with_cycles(difference(*found, tiles_between(ctas))), *read_resources(function.artifacts.CUBIN), launched.cluster[0] == 2
    )


def with_cycles(counts: dict[str, float]) -> dict[str, float]:
    """Cycles of a processor's 16 special function units and 128 FMA lanes besides: a packed operation takes two of a lane."""
    special = 32 * counts.get("MUFU", 0) / 16
    fused = 32 * (counts.get("FMA", 0) + 2 * counts.get("f32x2", 0)) / 128
    return counts | {"MUFU and FMA cycles": special + fused, "the busier of the two": max(special, fused)}


def tiles_between(ctas: int) -> float:
    """Tiles of 128 x 128 by which the two rows of keys differ, of so many CTAs with 256 queries."""
    return 2 * ctas * (LONG - SHORT) / 128


def table(extra: str, dim: int, our: Cost, single: Cost, their: Cost) -> str:
    """One variant. single: ours of one query tile."""
    columns = (
        "a 128 x 128 tile",
        "ours",
        "ours, one query tile",
        f"flash-attn-4{', pairs of CTAs' if their.pairs else ''}",
        "ours / theirs",
        "theirs, apart",
    )
    lines = [f"## {extra}, D {dim}", "", f"| {' | '.join(columns)} |", "|---|---|---|---|---|---|"]
    apart = INDEPENDENT[extra, dim]
    for row in ROWS:
        mine, one, other = (cost.counts.get(row, 0) for cost in (our, single, their))
        ratio = f"{mine / other:.2f}" if other else ""
        found = f"{number(mine)} | {number(one)} | {number(other)} | {ratio}"
        lines.append(f"| {row} | {found} | {number(apart[row] / 2) if row in apart else ''} |")
    registers = " | ".join(f"{cost.registers}, {cost.frame}" for cost in (our, single, their))
    lines.append(f"| registers a thread, bytes spilled | {registers} | | |")
    return "\n".join(lines)


def number(value: float) -> str:
    """Short."""
    return f"{value:,.1f}".removesuffix(".0")


def worst(their: Cost, apart: Mapping[str, float]) -> float:
    """The greatest relative distance from the independent figures."""
    return max(abs(their.counts[row] * 2 - value) / value for row, value in apart.items())


HEAD = """# What a tile costs

Made by `python -m benchmarks.tile_costs`, which needs the extra `peers` and no GPU. One work tile walks {short} and {long} keys,
and the difference is divided by the tiles between, so that prologue, epilogue and scheduling are left out. Causal: tiles that no
mask touches. bf16, normally distributed inputs; flash-attn-4 4.0.0b36, compiled here for sm_100a.

Counted are warp instructions of the PTX as the emulator runs it, not SASS: `mov`, which packs pairs and mostly vanishes, counts
among warp instructions only. FMA is plain f32 arithmetic, f32x2 the packed one (two elements a lane); ALU is comparisons, maxima,
selections, shifts, logic and integer additions. MMA cycles are those of the tensor core at 4,096 products a cycle; a processor
has 16 special functions and 128 FMA a cycle, which work at the same time: the busier of the two bounds a tile. Bytes are of one
CTA; those by threads count every lane, also where all read one word.

What is above theirs is so for a reason. An emulated exponential takes seven packed operations for two elements and three of the
ALU for one, and we emulate more of them than they do, so that special functions are fewer: f32x2 and ALU pay for MUFU, and the
sum of MUFU and FMA cycles hardly moves, since an exponential costs 1/16 of a cycle on either unit. (With softcap, tanh and the
exponential take 2,048 cycles of one unit or another however they are shared out: the busier one has 1.5 times less to do than
theirs, the sum 8 % less.) SMEM bytes by threads are maximum and sum of each row and words that hold addresses, which all lanes
read. Their pairs of CTAs load half a tile of keys each. At D 64 P lies apart from S, and hands over more.

One query tile (`query_tiles=1`) takes two key tiles a step: what it loads serves half as many rows, so the bytes by TMA double.
Maxima go from one key tile to the next, and each lane has a sum of its own to bring to them, which is one special function a row
more. Of a step, two tiles of scores, the model says {single} cycles for {double} of two query tiles at D 128, dense, if loads
keep up.

The last column is of another emulator, which shares no code with ours, also of PTX. Greatest distance from it: {distance:.1%}.
"""


def interval(query_tiles: Literal[1, 2]) -> float:
    """Cycles of a step of the plain variant at D 128, as the schedule proves them."""
    analysed = stages.analyse(stages.read("attention tile\nhead_dim 128\n"))
    return stages.place(stages.draw(analysed, query_tiles=query_tiles), analysed).proof.interval


def page(measure: Callable[[str, int], tuple[Cost, Cost, Cost]]) -> str:
    """docs/performance.md"""
    costs = {(extra, dim): measure(extra, dim) for dim in (128, 64) for extra in EXTRA}
    distance = max(worst(their, INDEPENDENT[key]) for key, (_, _, their) in costs.items())
    single, double = (number(interval(tiles)) for tiles in (1, 2))
    head = HEAD.format(short=SHORT, long=LONG, distance=distance, single=single, double=double)
    return "\n".join([head, *(f"{table(*key, *pair)}\n" for key, pair in costs.items())])


if __name__ == "__main__":
    torch.set_num_threads(1)
    flash_attn_4.load()
    PAGE.write_text(page(lambda extra, dim: (ours(extra, dim), ours(extra, dim, 1), theirs(extra, dim))), encoding="utf-8")
    print(f"wrote {PAGE}")
