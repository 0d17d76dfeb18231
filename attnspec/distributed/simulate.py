"""Expected scaling, from the cost model: `python -m attnspec.distributed.simulate [--machine NAME] [--length N] [--svg FILE]`.

One layer, forward and backward, of one sequence over more and more GPUs, for masks of three kinds. Efficiency is the time that
one GPU would take, over ranks times the time that they take: what is lost to links, to balance, and to tiles cut in two.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import attnspec
from attnspec.distributed.estimate import MACHINES, STRATEGIES, Estimate, Machine, has_heads
from attnspec.distributed.layout import contiguous, zigzag
from attnspec.distributed.load import Widths, balanced, load_of_layouts, runs_of
from attnspec.distributed.visible import TILE, Sight, Sizes, tensors_of

VARIANTS = ("causal", "sliding_window_causal", "document_causal")
LENGTH = 16 * 2**20
RANKS = (8, 16, 32, 64, 128, 256, 512, 1024)
HEADS, KV_HEADS, HEAD_DIM = 64, 8, 128
DOCUMENT = 2**17  # mean positions of a document, lengths exponentially distributed
SEED = 1


@dataclass(frozen=True)
class Point:
    """The best strategy of a layout on so many ranks. estimates: forward and backward. alone: seconds of one GPU."""

    variant: str
    ranks: int
    layout: str
    strategy: str
    estimates: tuple[Estimate, Estimate]
    balance: float
    alone: float

    @property
    def seconds(self) -> float:
        """Forward and backward."""
        return sum(one.seconds for one in self.estimates)

    @property
    def efficiency(self) -> float:
        """Of all GPUs together."""
        return self.alone / (self.ranks * self.seconds)


def documents(length: int, mean: int, seed: int) -> np.ndarray:
    """Ids of documents of random lengths, whole tiles each, packed in one sequence: (1, length)."""
    drawn = np.random.default_rng(seed).exponential(mean, 4 * length // mean + 16)
    lengths = np.maximum(TILE, drawn.astype(np.int64) // TILE * TILE)
    lengths = lengths[: np.searchsorted(lengths.cumsum(), length) + 1]
    return np.repeat(np.arange(len(lengths)), lengths)[None, :length].astype(np.int64)


def sight_of(variant: str, length: int) -> Sight:
    """What a variant of the package sees."""
    walk = attnspec.build(Path(attnspec.__file__).parent / "variants" / f"{variant}.attn").analysed.keys
    ids = documents(length, DOCUMENT, SEED)
    return Sight(walk, Sizes(1, HEADS, KV_HEADS, (length,), (length,)), dict.fromkeys(tensors_of(walk), ids))


def points(variant: str, length: int, ranks: int, machine: Machine) -> list[Point]:
    """One a layout and strategy."""
    sight, widths, found = sight_of(variant, length), Widths(HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM), []
    layouts = [contiguous(length, ranks), zigzag(length, ranks)]
    layouts += [balanced(sight, length, ranks, runs_of(length, ranks))] if sight.tensors else []
    for layout in layouts:
        load = load_of_layouts(sight, widths, layout, layout)
        for strategy, model in STRATEGIES.items():
            if strategy == "ulysses" and not (has_heads(widths, ranks) and layout is layouts[0]):
                continue
            estimates = model(load, machine, "forward"), model(load, machine, "backward")
            alone = sum(one.work for one in estimates) * ranks
            found.append(
                Point(variant, ranks, layout.name, strategy, estimates, 1.0 if strategy == "ulysses" else load.balance, alone)
            )
    return found


def table(variant: str, found: Sequence[Point]) -> str:
    """A row a number of GPUs, the fastest point of each."""
    lines = [
        f"| {variant}, GPUs | fastest | balance | forward | backward | sent, most | efficiency | ring | all_gather | ulysses |"
    ]
    lines.append("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for ranks in sorted({point.ranks for point in found}):
        mine = [point for point in found if point.ranks == ranks]
        best = min(mine, key=lambda point: point.seconds)
        forward, backward = best.estimates
        shown = " | ".join(best_of([point for point in mine if point.strategy == name]) for name in STRATEGIES)
        times = (
            f"{1e3 * forward.seconds:.1f} ms | {1e3 * backward.seconds:.1f} ms | {(forward.sent + backward.sent) / 1e9:.2f} GB"
        )
        start = f"| {ranks} | {best.strategy}, {best.layout} | {best.balance:.0%}"
        lines.append(f"{start} | {times} | {best.efficiency:.0%} | {shown} |")
    return "\n".join(lines)


def best_of(found: Sequence[Point]) -> str:
    """The efficiency of the fastest."""
    return f"{max(point.efficiency for point in found):.0%}" if found else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Tables on standard output; a picture with --svg."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", choices=MACHINES, default="h200")
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args(arguments)
    machine = MACHINES[given.machine]
    print(f"{machine.name}; {given.length} positions, {HEADS} heads over {KV_HEADS}, head_dim {HEAD_DIM}\n")
    found = []
    for variant in given.variants:
        mine = [point for ranks in given.ranks for point in points(variant, given.length, ranks, machine)]
        print(table(variant, mine) + "\n", flush=True)
        found += mine
    if given.svg is not None:
        from attnspec.distributed.picture import draw

        given.svg.write_text(draw(found, f"{machine.name}, {given.length} positions"), "utf-8")


if __name__ == "__main__":
    main()
