"""attnc explain: what the compiler found out about a variant, and what it made of that."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from attnspec.cli.json_text import json_text
from attnspec.cli.options import (
    GPU_TARGETS,
    NamedPath,
    constants_option,
    ctas_option,
    file_argument,
    json_option,
    query_tiles_option,
)
from attnspec.cli.shape import CallShape, Sizes, call_shape
from attnspec.language.limits import MAX_LENGTH

if TYPE_CHECKING:
    from attnspec.cli.count import Count
    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.lowering.schedule.schedule import Schedule

LENGTH = 8192


@click.command("explain")
@file_argument
@click.option("--length", type=click.IntRange(1, MAX_LENGTH), help=f"Length of queries and keys.  [default: {LENGTH}]")
@click.option("--shape", "sizes", type=Sizes(), default="", metavar="SIZES", help="Some of b=1,h=4,hkv=2,q=300,kv=300.")
@click.option("--target", type=click.Choice(GPU_TARGETS), default="sm100", show_default=True, help="Whose kernels.")
@ctas_option
@query_tiles_option
@constants_option
@click.option("--html", type=NamedPath(), help="Write a page with pictures there, and print nothing else.")
@click.option("--png", type=NamedPath(), help="Write a picture there: the mask, the warps over a few steps.")
@json_option
def command(
    file: str,
    length: int | None,
    sizes: dict[str, int],
    target: str,
    ctas: Literal[1, 2] | None,
    query_tiles: Literal[1, 2] | None,
    constants: tuple[tuple[str, Any], ...],
    html: Path | None,
    png: Path | None,
    as_json: bool,
) -> int:
    """Explain FILE: tiles visited out of all, derivatives, bounds, reads; roles, pipelines, memory, costs of its kernel."""
    from attnspec import stages
    from attnspec.cli.count import count
    from attnspec.cli.read_file import read_spec

    if length is not None and {"q", "kv"} & set(sizes):
        raise click.UsageError("--length and --shape q=, kv=: give one of them", click.get_current_context())
    spec = read_spec(file, constants)
    shape = call_shape(spec, sizes, 1, length or LENGTH)
    analysed = stages.analyse(spec)
    if html is not None or png is not None:
        from attnspec.cli.pictures import write_pictures

        return write_pictures(analysed, shape, target, html, png, as_json)
    schedule, backward = (schedule_or_reason(analysed, target, at, ctas, query_tiles) for at in ("forward", "backward"))
    flow = stages.draw(analysed, "forward", target, ctas, query_tiles=query_tiles)
    counted = count(analysed, shape, flow.work_rows)
    if as_json:
        click.echo(json_text(as_dict(analysed, shape, counted, schedule, backward, target)))
    else:
        click.echo(as_text(analysed, shape, counted, schedule, backward, target))
    return 0


def schedule_or_reason(
    analysed: "Analysed",
    target: str,
    direction: Literal["forward", "backward"],
    ctas: Literal[1, 2] | None,
    query_tiles: Literal[1, 2] | None,
) -> "Schedule | str":
    """The schedule of one kernel, or why the target cannot run the variant. ctas: that share a work tile."""
    from attnspec import stages
    from attnspec.errors import TargetError
    from attnspec.lowering.schedule.refusal import Unsupported

    try:
        return stages.place(stages.draw(analysed, direction, target, ctas, query_tiles=query_tiles), analysed, target)
    except (Unsupported, TargetError) as error:
        return str(error)


def as_text(
    analysed: "Analysed",
    shape: CallShape,
    counted: "Count | str",
    schedule: "Schedule | str",
    backward: "Schedule | str",
    target: str,
) -> str:
    """All sections."""
    from attnspec import stages
    from attnspec.cli.summary import spec_summary
    from attnspec.cli.work_tiles import show_work
    from attnspec.lowering.analysis.show import show_analysed

    sections = [spec_summary(analysed.spec), show_count(counted, shape), show_analysed(analysed).rstrip()]
    if target == "sm100" and not isinstance(schedule, str):
        sections.append(show_work(analysed, schedule, shape, stages.limits_of(target)))
    kernels = [show_kernel(analysed, one, target, name) for one, name in ((schedule, "forward"), (backward, "backward"))]
    return "\n\n".join([*sections, *kernels])


def show_count(counted: "Count | str", shape: CallShape) -> str:
    """Tiles by class, how they were found, what was assumed."""
    from attnspec.cli.count import TILE

    title = f"tiles of {TILE} x {TILE}, forward, q {shape.len_q:,}, kv {shape.len_kv:,}"
    if isinstance(counted, str):
        return f"{title}\n  {counted}"
    share = f"{100 * counted.visited / max(1, counted.total):.3g} %"
    heads = "every head" if counted.heads == 1 else f"{counted.heads} heads together"
    needed = f"{counted.needed:,} hold" if counted.needed is not None else "not looked at which hold"
    lines = [
        f"{title}, {heads}",
        f"  {counted.visited:,} of {counted.total:,} visited ({share}): {counted.full:,} full, {counted.partial:,} partial",
        f"  {needed} a visible element, {counted.how}",
        f"  {counted.steps:,} KV steps: work tiles of {counted.work_rows} rows share their keys",
    ]
    return "\n".join([*lines, *(f"  assumed {text}" for text in counted.assumed)])


def show_kernel(analysed: "Analysed", schedule: "Schedule | str", target: str, name: str) -> str:
    """The schedule's tables."""
    from attnspec.lowering.schedule.show import show_schedule

    if isinstance(schedule, str):
        return f"{target} {name} kernel\n  none: {schedule}"
    parts = [f"{target} {name} kernel ({schedule.threads} threads)", *tell_ctas(analysed, schedule, target)]
    return "\n\n".join([*parts, show_schedule(schedule, masked_prices(analysed, schedule, target)).rstrip()])


def tell_ctas(analysed: "Analysed", schedule: "Schedule", target: str) -> list[str]:
    """How many CTAs share a work tile, and why; nothing where there is no choice."""
    from attnspec import stages
    from attnspec.lowering.schedule.choose_backward_ctas import explain_backward_ctas
    from attnspec.lowering.schedule.choose_ctas import explain_ctas

    flow, limits = schedule.dataflow, stages.limits_of(target)
    if flow.direction == "backward":
        return [explain_backward_ctas(analysed, limits, flow.ctas)] if limits.tensor_columns else []
    return [explain_ctas(analysed, limits, flow.ctas)] if flow.key_tiles == 1 else []


def masked_prices(analysed: "Analysed", schedule: "Schedule", target: str) -> Any:
    """Prices of a step that needs the element mask; None where no tile does."""
    from attnspec import stages
    from attnspec.lowering.schedule.cost import price

    if analysed.spec.mask is None:
        return None
    return price(schedule.dataflow, analysed, schedule.choices, stages.limits_of(target), masked=True)


def as_dict(
    analysed: "Analysed",
    shape: CallShape,
    counted: "Count | str",
    schedule: "Schedule | str",
    backward: "Schedule | str",
    target: str,
) -> dict[str, Any]:
    """The same for machines."""
    from dataclasses import asdict

    from attnspec.cli.summary import spec_as_dict
    from attnspec.lowering.analysis.show import analysed_as_dict
    from attnspec.lowering.schedule.show import schedule_as_dict

    return {
        "spec": spec_as_dict(analysed.spec),
        "shape": asdict(shape),
        "tiles": {"reason": counted} if isinstance(counted, str) else asdict(counted),
        "analysed": analysed_as_dict(analysed),
        **{
            name: {"target": target, "reason": one}
            if isinstance(one, str)
            else {**schedule_as_dict(one), "ctas": one.dataflow.ctas, "why_ctas": "\n".join(tell_ctas(analysed, one, target))}
            for name, one in (("kernel", schedule), ("backward", backward))
        },
    }
