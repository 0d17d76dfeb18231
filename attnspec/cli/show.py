"""attnc show: what one stage of the compiler makes of a file."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnspec import stages
from attnspec.cli.json_text import json_text
from attnspec.cli.options import GPU_TARGETS, constants_option, file_argument, json_option, target_option
from attnspec.cli.read_file import overrides, parse_file

if TYPE_CHECKING:
    from attnspec.backends.emitted import Emitted
    from attnspec.lowering.analysis.analysed import Analysed

STAGES = ("tree", "spec", "analysed", "dataflow", "schedule", "emitted", "ptx", "sass")
GPU_STAGES = ("dataflow", "schedule", "ptx", "sass")

Shown = tuple[str, Mapping[str, Any] | None]  # text, and for JSON the value where it has one


@click.command("show")
@file_argument
@click.option("--stage", type=click.Choice(STAGES), required=True, help="Which stage's value to print.")
@target_option("sm100")
@constants_option
@json_option
def command(file: str, stage: str, target: str, constants: tuple[tuple[str, Any], ...], as_json: bool) -> int:
    """Print what a stage of the compiler makes of FILE."""
    if stage in GPU_STAGES and target not in GPU_TARGETS:
        raise click.BadOptionUsage("--stage", f"--stage {stage}: the {target} target has no such stage; its source is `emitted`")
    text, value = shown(file, stage, target, overrides(constants))
    if as_json:
        click.echo(json_text({"stage": stage, "text": text, **({"value": value} if value is not None else {})}))
    else:
        click.echo(text, nl=not text.endswith("\n"))
    return 0


def shown(file: str, stage: str, target: str, constants: Mapping[str, Any]) -> Shown:
    """The value of a stage, printed."""
    tree = parse_file(file)
    if stage == "tree":
        from attnspec.language.show_tree import show_tree

        return show_tree(tree), None
    spec = stages.check(tree, constants)
    if stage == "spec":
        from attnspec.cli.summary import spec_as_dict
        from attnspec.language.show import show

        return show(spec), spec_as_dict(spec)
    analysed = stages.analyse(spec)
    if stage == "analysed":
        from attnspec.lowering.analysis.show import analysed_as_dict, show_analysed

        return show_analysed(analysed), analysed_as_dict(analysed)
    if target == "reference":
        return show_emitted(stages.emit_reference(analysed)), None
    return shown_on_gpu(analysed, stage, target)


def shown_on_gpu(analysed: "Analysed", stage: str, target: str) -> Shown:
    """The value of a stage that GPU targets alone have."""
    dataflow = stages.draw(analysed, "forward", target)
    if stage == "dataflow":
        from attnspec.lowering.dataflow.show import dataflow_as_dict, show_dataflow

        return show_dataflow(dataflow), dataflow_as_dict(dataflow)
    schedule = stages.place(dataflow, analysed, target)
    if stage == "schedule":
        from attnspec.lowering.schedule.show import schedule_as_dict, show_schedule

        return show_schedule(schedule), schedule_as_dict(schedule)
    emitted = stages.emit(analysed, schedule)
    if stage == "emitted":
        return show_emitted(emitted), None
    with tempfile.TemporaryDirectory(prefix="attnc-") as folder:
        binary = stages.assemble(emitted, Path(folder), sass=stage == "sass")
    return (binary.ptx if stage == "ptx" else binary.sass or ""), None


def show_emitted(emitted: "Emitted") -> str:
    """The modules one after the other; each by its name where there are several."""
    if len(emitted.modules) == 1:
        return emitted.modules[0].text
    return "\n".join(f"# {module.file_name}\n{module.text}" for module in emitted.modules)
