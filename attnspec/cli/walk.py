"""The stages of a compilation, each timed and told of in a line."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from attnspec import stages
from attnspec.cli.read_file import overrides, parse_file
from attnspec.lowering.schedule.refusal import Unsupported

if TYPE_CHECKING:
    from attnspec.backends.emitted import Emitted
    from attnspec.language.spec import Spec
    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.lowering.dataflow.graph import Dataflow
    from attnspec.lowering.schedule.schedule import Schedule

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """One stage done. made: what it gave, in words."""

    name: str
    seconds: float
    made: str


@dataclass
class Walk:
    """Stages in the order done; tells of the one at work on a terminal."""

    done: list[Stage] = field(default_factory=list)

    def step(self, name: str, make: Callable[[], T], tell: Callable[[T], str]) -> T:
        """Do a stage."""
        show_progress(f"{name} ...")
        start = time.perf_counter()
        try:
            value = make()
        finally:
            show_progress("")
        self.done.append(Stage(name, time.perf_counter() - start, tell(value)))
        return value

    @property
    def seconds(self) -> Mapping[str, float]:
        """By stage."""
        return {stage.name: round(stage.seconds, 4) for stage in self.done}


def show_progress(text: str) -> None:
    """One line that the next one overwrites; nothing where nobody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


@dataclass(frozen=True)
class Made:
    """What the walk up to the source gave; the reference has no schedule, and its backward stands in `emitted`.

    backward: the backward of a GPU target; None where it was not asked for, or is refused for the reason given.
    """

    spec: "Spec"
    analysed: "Analysed"
    schedule: "Schedule | None"
    emitted: "Emitted"
    backward: "Emitted | None" = None
    refused: str = ""


def walk_to_source(
    walk: Walk,
    file: str,
    constants: tuple[tuple[str, Any], ...],
    target: str,
    forward_only: bool = False,
    ctas: Literal[1, 2] | None = None,
    query_tiles: Literal[1, 2] | None = None,
) -> Made:
    """From a file to emitted source. ctas: of a work tile; query_tiles: of the forward's; None leaves both to the compiler."""
    tree = walk.step("tree", lambda: parse_file(file), lambda tree: counted(len(tree.statements), "statement"))
    spec = walk.step("spec", lambda: stages.check(tree, overrides(constants)), tell_spec)
    analysed = walk.step("analysed", lambda: stages.analyse(spec), tell_analysed)
    if target == "reference":
        return Made(spec, analysed, None, walk.step("emitted", lambda: stages.emit_reference(analysed), tell_emitted))
    schedule, emitted = walk_to_kernel(walk, analysed, target, "forward", ctas, query_tiles)
    backward, refused = None, ""
    if not forward_only:
        try:
            _, backward = walk_to_kernel(walk, analysed, target, "backward", ctas)
        except Unsupported as error:
            refused = f"no backward: {error}"
    return Made(spec, analysed, schedule, emitted, backward, refused)


def walk_to_kernel(
    walk: Walk,
    analysed: "Analysed",
    target: str,
    direction: Literal["forward", "backward"],
    ctas: Literal[1, 2] | None = None,
    query_tiles: Literal[1, 2] | None = None,
) -> "tuple[Schedule, Emitted]":
    """From the analyses to the source of one kernel."""
    of = "" if direction == "forward" else "backward "
    dataflow = walk.step(
        f"{of}dataflow",
        lambda: stages.draw(analysed, direction, target, ctas, query_tiles=query_tiles),
        tell_dataflow,
    )
    schedule = walk.step(f"{of}schedule", lambda: stages.place(dataflow, analysed, target, show_progress), tell_schedule)
    return schedule, walk.step(f"{of}emitted", lambda: stages.emit(analysed, schedule), tell_emitted)


def walk_to_binary(walk: Walk, emitted: "Emitted", folder: Path, sass: bool) -> Any:
    """From emitted source to PTX and cubin; the source is written to the folder."""
    return walk.step(
        "binary" if emitted.modules[0].name == "forward" else "backward binary",
        lambda: stages.assemble(emitted, folder, sass),
        lambda binary: (
            f"{binary.registers} registers, {tell_spills(binary.frame_bytes)}, "
            f"{binary.ptx.count(chr(10)):,} lines of PTX, {len(binary.cubin):,} bytes of cubin"
        ),
    )


def tell_spec(spec: "Spec") -> str:
    """`2 constants, 1 tensor (1 learned); score, mask`."""
    parts = [("score", spec.score_span), ("mask", spec.mask), ("sink", spec.sink)]
    names = [name for name, part in parts[1:] if part is not None]
    tensors = f"{counted(len(spec.tensors), 'tensor')}" + (f" ({len(spec.learned)} learned)" if spec.learned else "")
    return ", ".join([counted(len(spec.constants), "constant"), tensors, *names])


def tell_analysed(analysed: "Analysed") -> str:
    """What of it decides about the kernel."""
    keys = "exact" if analysed.keys.exact else "not exact"
    row_max = "needed" if analysed.bounds.needs_row_max else "not needed (the score is bounded)"
    return f"tile walk {keys}, row maximum {row_max}"


def tell_dataflow(flow: "Dataflow") -> str:
    """Its size, and whether a work tile has more than one CTA."""
    pairs = f", in {flow.ctas} CTAs a work tile" if flow.ctas > 1 else ""
    return f"{counted(len(flow.operations), 'operation')}, {counted(len(flow.values), 'edge')}{pairs}"


def tell_schedule(schedule: "Schedule") -> str:
    """Its size, and cycles a step."""
    roles = counted(len(schedule.roles), "role")
    return f"{roles}, {counted(len(schedule.channels), 'channel')}, verified; a step in {schedule.proof.step_cycles:.0f} cycles"


def tell_emitted(emitted: "Emitted") -> str:
    """Files and their lines."""
    return ", ".join(f"{module.file_name} {module.text.count(chr(10))} lines" for module in emitted.modules)


def tell_spills(frame_bytes: int) -> str:
    """In words."""
    return "no spills" if frame_bytes == 0 else f"spills: a frame of {frame_bytes} bytes"


def counted(number: int, noun: str) -> str:
    """`1 edge`, `2 edges`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
