"""attnc bench: a variant's kernels and other people's, timed on the same inputs in one process on this machine's GPU."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnspec.cli.json_text import json_text
from attnspec.cli.options import NamedPath, constants_option, json_option
from attnspec.cli.shape import CallShape, Sizes, call_shape
from attnspec.errors import TargetError
from attnspec.language.spec import Spec

if TYPE_CHECKING:
    from attnspec.bench.race import Race

TOKENS, LENGTH, WIDE = 16384, 4096, 2048  # rows of a call, of a sequence, and elements of all heads of a row
DOCUMENTS = 8  # in a sequence, where ids of documents are drawn


@click.command("bench")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--shape", "sizes", type=Sizes(), default="", metavar="SIZES", help="Some of b=4,h=16,hkv=16,q=4096,kv=4096.")
@click.option("--dtype", type=click.Choice(["bf16", "fp16"]), help="Of q, k and v.  [default: the file's]")
@click.option("--backward", is_flag=True, help="Time the backward too.")
@click.option("--png", type=NamedPath(), help="Draw the figures to this file; needs matplotlib.")
@constants_option
@json_option
def command(
    files: tuple[str, ...],
    sizes: dict[str, int],
    dtype: str | None,
    backward: bool,
    png: Path | None,
    constants: tuple[tuple[str, Any], ...],
    as_json: bool,
) -> int:
    """Time each FILE's kernels, flash-attn-4, cuDNN and FlexAttention on the same inputs, on this machine's GPU.

    What a peer is called with is read off the spec; FlexAttention's functions are written from it. Who is not installed, cannot
    express the variant or fails is listed with the reason. Times are medians; outputs are held against ours.
    """
    from attnspec.cli.progress import Progress
    from attnspec.cli.read_file import read_spec

    specs = [read_spec(file, constants) for file in files]
    specs = [spec if dtype is None else replace(spec, dtype=dtype) for spec in specs]
    shapes = [shape_of(spec, sizes) for spec in specs]
    if png is not None:
        from attnspec.report.png import format_of

        format_of(png)
    device = require_gpu()
    progress, races = Progress(), []
    for spec, shape in zip(specs, shapes, strict=True):
        progress.show(f"{spec.name}: timing")
        races.append(run(spec, shape, backward))
    progress.clear()
    if png is not None:
        from attnspec.bench.report import draw

        draw(races, f"{device}: {shapes[0]}", png)
    click.echo(json_text(as_json_types(device, races, shapes)) if as_json else as_text(device, races, shapes))
    return 0


def shape_of(spec: Spec, sizes: dict[str, int]) -> CallShape:
    """The sizes given; for the others 16384 rows in all, and heads that make 2048 elements of a row."""
    length = sizes.get("q", sizes.get("kv", LENGTH))
    heads = sizes.get("h") or max(1, WIDE // spec.head_dim) // (spec.group or 1) * (spec.group or 1) or spec.group
    kv_heads = sizes.get("hkv") or (heads or 1) // (spec.group or 1)
    return call_shape(spec, sizes | {"h": heads or 1, "hkv": kv_heads}, max(1, TOKENS // length), LENGTH)


def require_gpu() -> str:
    """The GPU's name; TargetError without one."""
    import torch

    if not torch.cuda.is_available():
        raise TargetError(
            "attnc bench times kernels on a GPU, and torch finds no CUDA GPU here; "
            "`attnc explain` shows what the cost model expects of one"
        )
    return torch.cuda.get_device_name()


def run(spec: Spec, shape: CallShape, backward: bool) -> "Race":
    """Draw inputs on the GPU, and time all."""
    from attnspec.api import build
    from attnspec.bench.draw import draw_for_bench
    from attnspec.bench.race import gpu_clock, race
    from attnspec.runtime.draw_inputs import Shape

    inputs = draw_for_bench(spec, Shape(**asdict(shape)), DOCUMENTS).on("cuda")
    return race(build(spec), inputs, backward=backward, clock=gpu_clock)


def as_text(device: str, races: "list[Race]", shapes: list[CallShape]) -> str:
    """A table a variant, and how its figures are counted."""
    from attnspec.bench.report import COUNTED, head_of, rows_of
    from attnspec.cli.summary import spec_title
    from attnspec.cli.table import table

    parts = [f"on {device}"]
    for found, shape in zip(races, shapes, strict=True):
        seen = f"; {found.visible / found.all_scores:.1%} of all scores are visible" if found.all_scores else ""
        head = head_of(found)
        rows = table(head, rows_of(found), right=range(1, len(head) - 1))
        parts += ["", spec_title(found.spec), f"{shape}{seen}", "", rows]
    return "\n".join([*parts, "", COUNTED])


def as_json_types(device: str, races: "list[Race]", shapes: list[CallShape]) -> dict[str, Any]:
    """The same for machines."""
    from attnspec.bench.report import as_dict

    return {
        "device": device,
        "races": [{**as_dict(found), "shape": asdict(shape)} for found, shape in zip(races, shapes, strict=True)],
    }
