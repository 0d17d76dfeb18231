"""The mask and the timeline as one PNG, for papers and READMEs; needs matplotlib, the extra `pictures`."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnspec.cli.summary import spec_title
from attnspec.errors import ArgumentError, TargetError
from attnspec.report.mask_picture import EMPTY, FULL, PARTIAL, Picture
from attnspec.report.page import Facts, KernelFacts
from attnspec.report.timeline import Timeline, timeline_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {FULL: "#2f6db5", PARTIAL: "#e0912f", EMPTY: "#eef1f5"}
BARS = ("#9fc1e6", "#cfe0f3")
CRITICAL = "#b3261e"
LETTERS = 0.011  # of a bar's share of the picture, that a letter of its name takes


def format_of(path: Path) -> str:
    """How a file of that name is written, png where its name does not say; an error for a format that there is not, and
    without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise TargetError("--png draws with matplotlib, which is not installed: pip install 'attnspec[pictures]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    known = sorted(FigureCanvasAgg.get_supported_filetypes())
    wanted = path.suffix[1:].lower() or "png"
    if wanted not in known:
        raise ArgumentError(
            f"--png {path}: no picture is written as `.{wanted}`; there are {', '.join(f'.{at}' for at in known)}"
        )
    return wanted


def write_png(facts: Facts, path: Path) -> None:
    """Write the picture. Raises ImportError where matplotlib is missing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kernels = [kernel for kernel in facts.kernels if isinstance(kernel, KernelFacts)]
    parts = [facts.picture] if isinstance(facts.picture, Picture) else []
    lines = [(kernel, timeline_of(kernel.schedule)) for kernel in kernels]
    heights = [5.0] * len(parts) + [0.7 + 0.34 * len(found.roles) for _, found in lines]
    figure = Figure(figsize=(9.0, sum(heights) + 0.8 * len(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)
    for axes, picture in zip(grid[:, 0], parts, strict=False):
        draw_mask(axes, picture)
    for axes, (kernel, found) in zip(grid[len(parts) :, 0], lines, strict=True):
        draw_timeline(axes, found, kernel.title)
    figure.suptitle(spec_title(facts.analysed.spec), x=0.02, ha="left")
    figure.savefig(path, dpi=160, format=format_of(path))


def draw_mask(axes: "Axes", picture: Picture) -> None:
    """Queries downwards, keys to the right; classes in the legend."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    for kind, colour in COLOURS.items():
        boxes = [Rectangle((s.first, s.row), s.last - s.first, 1) for s in picture.strips if s.kind == kind]
        axes.add_collection(PatchCollection(boxes, facecolor=colour, edgecolor="white", linewidth=0.3))
    axes.set_xlim(0, picture.columns)
    axes.set_ylim(picture.rows, 0)
    axes.set_aspect("equal")
    axes.set_xlabel(f"keys, in tiles of {picture.tile}")
    axes.set_ylabel(f"queries, in tiles of {picture.tile}")
    legend = [Patch(facecolor=colour, label=f"{kind} ({picture.count(kind):,})") for kind, colour in COLOURS.items()]
    axes.legend(handles=legend, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)


def draw_timeline(axes: "Axes", timeline: Timeline, title: str) -> None:
    """A lane a role; what is on the critical circle has a frame."""
    for lane, role in enumerate(timeline.roles):
        for bar in (bar for bar in timeline.bars if bar.role == role):
            start, end = max(bar.start, 0.0), min(bar.start + bar.cycles, timeline.cycles)
            edge = CRITICAL if bar.is_critical else "none"
            axes.barh(lane, end - start, left=start, height=0.7, color=BARS[bar.step % 2], edgecolor=edge, linewidth=0.9)
            if (end - start) / timeline.cycles > LETTERS * len(bar.operation):
                axes.text(start + 0.005 * timeline.cycles, lane, bar.operation, va="center", fontsize=6)
    axes.set_yticks(range(len(timeline.roles)), timeline.roles)
    axes.invert_yaxis()
    axes.set_xlim(0, timeline.cycles)
    axes.set_xlabel(f"cycles; a step takes {timeline.step_cycles:,.0f}, the critical circle is framed")
    axes.set_title(title, loc="left", fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
