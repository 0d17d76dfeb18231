"""A race in words, in JSON types and as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnspec.bench.contenders import OURS
from attnspec.bench.race import Race, Result
from attnspec.errors import TargetError

COUNTED = (
    "TFLOP/s count the products of visible scores alone: 2 (D + Dv) a score forward, 2 (3 D + 2 Dv) backward. "
    "A ratio above 1: ours is faster."
)
PASSES = ("forward", "backward")
COLORS = {OURS: "#1f6feb"}
OTHERS = ("#8b949e", "#a371f7", "#d29922", "#3fb950")


def rows_of(found: Race) -> list[tuple[str, ...]]:
    """A row a contender: name, then milliseconds, TFLOP/s and ratio of each pass, then what is to be said."""
    rows = []
    for result in found.results:
        cells = [cell for at in range(2) if is_timed(found, at) for cell in cells_of(found, result, at)]
        said = result.reason or ("" if result.is_right else f"computes something else: off by {result.far:.2g} of the largest")
        rows.append((result.name, *cells, said))
    return rows


def head_of(found: Race) -> tuple[str, ...]:
    """Column heads."""
    shown = [name for at, name in enumerate(PASSES) if is_timed(found, at)]
    return ("", *(cell for name in shown for cell in (f"{name} ms", "TFLOP/s", "ours / its")), "")


def is_timed(found: Race, at: int) -> bool:
    """Whether any contender has a time for a pass."""
    return at == 0 or any(seconds_of(result, at) is not None for result in found.results)


def cells_of(found: Race, result: Result, at: int) -> tuple[str, str, str]:
    """Milliseconds, TFLOP/s and how many times as fast ours is."""
    seconds, ours = seconds_of(result, at), seconds_of(found.results[0], at)
    if seconds is None:
        return "-", "-", "-"
    ratio = f"{seconds / ours:.2f}" if ours is not None and result is not found.results[0] else ""
    return f"{seconds * 1e3:.3f}", f"{rate(found, result, at):.0f}", ratio


def seconds_of(result: Result, at: int) -> float | None:
    """The time of a pass."""
    return (result.forward, result.backward)[at]


def rate(found: Race, result: Result, at: int) -> float:
    """TFLOP/s of a pass; 0 without a time."""
    seconds = seconds_of(result, at)
    return found.flops[at] / seconds / 1e12 if seconds else 0.0


def as_dict(found: Race) -> dict[str, Any]:
    """The same for machines; ratios are the peer's time over ours."""
    rows = []
    for result in found.results:
        row: dict[str, Any] = {"name": result.name, "reason": result.reason, "is_right": result.is_right, "distance": result.far}
        for at, name in enumerate(PASSES):
            seconds, ours = seconds_of(result, at), seconds_of(found.results[0], at)
            ratio = seconds / ours if seconds is not None and ours is not None else None
            row[name] = None if seconds is None else {"seconds": seconds, "tflops": rate(found, result, at), "ratio": ratio}
        rows.append(row)
    return {"variant": found.spec.name, "visible_scores": found.visible, "flops": dict(zip(PASSES, found.flops)), "results": rows}


def draw(races: Sequence[Race], title: str, path: Path) -> None:
    """Bars of TFLOP/s, a group a variant and a panel a pass, to a PNG. TargetError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TargetError("--png needs matplotlib: pip install 'attnspec[pictures]'") from None
    passes = [at for at in range(2) if any(is_timed(found, at) for found in races)]
    figure = Figure(figsize=(max(6.0, 1.8 * len(races) + 3), 3.4 * len(passes)), layout="constrained")
    for panel, at in enumerate(passes):
        axes = figure.add_subplot(len(passes), 1, panel + 1)
        names = [result.name for result in races[0].results if any(rate(found, one, at) for found in races
                 for one in found.results if one.name == result.name)]  # fmt: skip
        width = 0.8 / max(1, len(names))
        for place, name in enumerate(names):
            heights = [next(rate(found, one, at) for one in found.results if one.name == name) for found in races]
            color = COLORS.get(name, OTHERS[(place - 1) % len(OTHERS)])
            starts = [group + (place - (len(names) - 1) / 2) * width for group in range(len(races))]
            bars = axes.bar(starts, heights, width * 0.92, label=name, color=color)
            axes.bar_label(bars, [f"{height:.0f}" if height else "" for height in heights], fontsize=7, padding=1)
        axes.set_xticks(range(len(races)), [found.spec.name for found in races])
        axes.set_ylabel(f"{PASSES[at]}, TFLOP/s of visible scores")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.15)
        if panel == 0:
            axes.set_title(title, fontsize=10)
            axes.legend(fontsize=8, ncols=max(1, len(names)), frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.savefig(path, dpi=150, format=path.suffix[1:].lower() or "png")
