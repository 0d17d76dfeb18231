"""Everything that the page and the pictures show, from one walk through the compiler."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attnspec import stages
from attnspec.cli.count import MOST_DRAWN, count, extents_of, tensors_of_mask
from attnspec.cli.shape import CallShape
from attnspec.errors import TargetError
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.report.mask_picture import Picture, picture_of
from attnspec.report.page import Facts, KernelFacts

if TYPE_CHECKING:
    from attnspec.backends.emitted import Emitted


def gather(text: str, analysed: Analysed, shape: CallShape, target: str, *, compiles: bool = True) -> Facts:
    """Both kernels with their schedules and sources, and what their PTX holds if it is compiled."""
    flow = stages.draw(analysed, "forward", target)
    counted = count(analysed, shape, flow.query_tiles * flow.tile_q)
    kernels = tuple(kernel_or_reason(analysed, target, direction, compiles) for direction in ("forward", "backward"))
    return Facts(text, analysed, shape, picture_or_reason(analysed, shape), counted, kernels)


def picture_or_reason(analysed: Analysed, shape: CallShape) -> Picture | str:
    """The mask's picture, or why there is none."""
    for tensor in tensors_of_mask(analysed):
        size = 1
        for extent in extents_of(tensor, shape):
            size *= extent
        if size > MOST_DRAWN:
            return f"No picture: the mask reads `{tensor.name}`, {size:,} elements at these lengths. Ask for smaller ones."
    return picture_of(analysed, shape)


def kernel_or_reason(
    analysed: Analysed, target: str, direction: Literal["forward", "backward"], compiles: bool
) -> KernelFacts | str:
    """One kernel, or the title and the reason why the target has none."""
    title = f"{target} {direction} kernel"
    try:
        schedule = stages.place(stages.draw(analysed, direction, target), analysed, target)
        emitted = stages.emit(analysed, schedule)
        limits = stages.limits_of(target)
    except (Unsupported, TargetError) as error:
        return f"{title}: none: {error}"
    census, machine = compiled_or_reason(emitted) if compiles else ("Not compiled.", "")
    return KernelFacts(title, schedule, emitted, limits, census, machine)


def compiled_or_reason(emitted: "Emitted") -> tuple[Mapping[str, int] | str, str]:
    """PTX instructions by sort, and what ptxas made of them."""
    from attnspec.cli.facts import census_summary

    try:
        with tempfile.TemporaryDirectory(prefix="attnspec-") as folder:
            binary = stages.assemble(emitted, Path(folder))
    except TargetError as error:
        return f"Not compiled: {error}", ""
    return census_summary(binary), machine_of(binary.registers, binary.frame_bytes)


def machine_of(registers: int, frame_bytes: int) -> str:
    """What a thread holds. Spills are ptxas's: the PTX, whose registers have no end, does not show them."""
    spills = f"spills: {frame_bytes:,} bytes of local memory a thread, for what ptxas found no register"
    return f"{registers} registers a thread at launch, {spills if frame_bytes else 'no spills'}."
