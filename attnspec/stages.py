"""The compiler as one walk, a function a stage, each from one value to the next:

    text -parse-> tree -check-> spec -analyse-> analysed -draw-> dataflow -place-> schedule -emit-> emitted -assemble-> binary

The reference target needs no dataflow and no schedule: `emit_reference` goes from analysed to emitted. Modules are imported
where they are used, so that a stage costs what it needs: nothing heavy is loaded before a spec is known to be good.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

from attnspec.errors import TargetError

if TYPE_CHECKING:
    from attnspec.api import Attention
    from attnspec.backends.emitted import Emitted
    from attnspec.language.spec import Spec
    from attnspec.language.syntax import Tree
    from attnspec.lowering.analysis.analysed import Analysed
    from attnspec.lowering.dataflow.graph import Dataflow
    from attnspec.lowering.schedule.limits import Limits
    from attnspec.lowering.schedule.schedule import Schedule
    from attnspec.runtime.binary import Binary
    from attnspec.runtime.kernel import Kernel

_kernels: "dict[str, Kernel]" = {}
_lock = Lock()


def parse(text: str, name: str = "<text>") -> "Tree":
    """Text to tree."""
    from attnspec.language.parse import parse

    return parse(text, name)


def check(tree: "Tree", constants: Mapping[str, int | float] = {}) -> "Spec":
    """Tree to spec; constants override the file's."""
    from attnspec.language.check import check

    return check(tree, constants)


def read(source: str | os.PathLike[str], constants: Mapping[str, int | float] = {}) -> "Spec":
    """A path or a text to a spec: both stages at once."""
    from attnspec.language.load import read_spec

    return read_spec(source, constants)


def analyse(spec: "Spec") -> "Analysed":
    """Spec to analysed: key ranges, derivatives, bounds, reads."""
    from attnspec.lowering.analysis.analyse import analyse

    return analyse(spec)


def draw(
    analysed: "Analysed",
    direction: Literal["forward", "backward"] = "forward",
    target: str = "sm100",
    ctas: Literal[1, 2] | None = None,
    *,
    query_tiles: Literal[1, 2] | None = None,
    deterministic: bool = False,
) -> "Dataflow":
    """Analysed to the graph of one kernel for a chip: tile operations and the values between them.

    ctas: that share a work tile; None leaves it to the cost model. A backward that two cannot share is of one.
    query_tiles: of a work tile of the forward; 1 takes two key tiles a step, None is 2 where they fit. deterministic: of a
    backward. `Unsupported` for a choice that the variant or the chip does not leave.
    """
    from attnspec.lowering.dataflow.draw import draw
    from attnspec.lowering.dataflow.forward import NO_TILES
    from attnspec.lowering.dataflow.forward_in_registers import PLAIN
    from attnspec.lowering.schedule.choose_backward_ctas import choose_backward_ctas
    from attnspec.lowering.schedule.choose_ctas import choose_ctas
    from attnspec.lowering.schedule.choose_storage import choose_storage
    from attnspec.lowering.schedule.choose_tiles import choose_tiles
    from attnspec.lowering.schedule.refuse_one_query_tile import refuse_query_tiles

    limits = limits_of(target)
    if ctas == 2 and not limits.tensor_columns:
        raise TargetError(f"ctas=2: pairs of CTAs share tensor operations on sm100, {target} has none that two can share")
    one = direction == "forward" and query_tiles == 1
    if direction == "forward":
        refuse_query_tiles(analysed, limits, query_tiles, ctas)
    if direction == "backward":
        ctas = choose_backward_ctas(analysed, limits, ctas)
    elif ctas is None:
        ctas = 1 if one else choose_ctas(analysed, limits)
    if not limits.tensor_columns:
        storage = choose_storage(analysed, limits) if direction == "forward" else PLAIN
        return draw(analysed, direction, in_registers=True, deterministic=deterministic, storage=storage)
    tiles = choose_tiles(analysed, limits) if direction == "forward" and ctas == 1 and not one else NO_TILES
    return draw(analysed, direction, one_query_tile=one, ctas=ctas, deterministic=deterministic, tiles=tiles)


def place(
    dataflow: "Dataflow", analysed: "Analysed", target: str = "sm100", tell: Callable[[str], None] = lambda text: None
) -> "Schedule":
    """Dataflow to a verified schedule for a chip. `Unsupported` names the statement that the chip cannot run.

    tell: gets a line for each thing tried, where the graph is new and its schedule is searched.
    """
    from attnspec.lowering.schedule.place import place
    from attnspec.runtime.schedule_memory import ScheduleMemory

    return place(dataflow, analysed, limits_of(target), ScheduleMemory(), tell)


def emit(analysed: "Analysed", schedule: "Schedule") -> "Emitted":
    """Schedule to CuTe-DSL source for the chip it was made for."""
    from attnspec.backends.sm90 import backend as sm90
    from attnspec.backends.sm100 import backend as sm100

    return (sm90 if schedule.target == sm90.NAME else sm100).emit(analysed, schedule)


def assemble(emitted: "Emitted", folder: Path, sass: bool = False) -> "Binary":
    """CuTe-DSL source to PTX and cubin, from the user's cache if they are there; the source is written to `folder`."""
    if find_spec("cutlass") is None:
        raise TargetError("PTX and cubin need the package nvidia-cutlass-dsl, which is made for Linux and is not installed here")
    from attnspec.runtime.stored_binary import assemble_or_find

    return assemble_or_find(emitted, folder, sass)


def limits_of(target: str) -> "Limits":
    """What the chip of a GPU target offers; TargetError for one that has no kernels yet."""
    from attnspec.backends.sm90.limits import LIMITS as SM90
    from attnspec.backends.sm100.limits import LIMITS as SM100

    found = {limits.target: limits for limits in (SM90, SM100)}.get(target)
    if found is None:
        raise TargetError(f"target {target!r} has no kernels; sm100 and sm90 compile, the reference runs")
    return found


def emit_reference(analysed: "Analysed") -> "Emitted":
    """Analysed to torch source; the reference needs no dataflow and no schedule."""
    from attnspec.backends.reference import backend

    return backend.emit(analysed)


def kernel(attention: "Attention", target: str) -> "Kernel":
    """The callable of a variant on a target: made once for all variants of one meaning, in this process."""
    from attnspec.runtime.cache_key import cache_key

    options = {name: getattr(attention, name) for name in ("on", "splits", "ctas", "query_tiles")}
    key = cache_key(attention.spec, target, options)
    with _lock:
        found = _kernels.get(key)
    if found is None:
        made = make_kernel(attention, target)
        with _lock:
            found = _kernels.setdefault(key, made)
    return found


def make_kernel(attention: "Attention", target: str) -> "Kernel":
    """Walk the stages from the spec to a callable."""
    from attnspec.runtime.kernel import Kernel
    from attnspec.runtime.reference_program import ReferenceProgram

    learned = attention.learned_flags
    if target == "reference":
        return Kernel(ReferenceProgram(emit_reference(attention.analysed), learned))
    from attnspec.lowering.schedule.choose_backward_ctas import short_calls
    from attnspec.lowering.schedule.refusal import Unsupported
    from attnspec.runtime.backward_forms import Form

    if attention.splits not in (None, 1) and not limits_of(target).tensor_columns:
        raise TargetError(f"splits={attention.splits}: parts of the keys are for sm100, {target} takes all keys of a row at once")
    analysed = attention.analysed

    def scheduled(
        direction: Literal["forward", "backward"], ctas: Literal[1, 2] | None, deterministic: bool = False
    ) -> "Schedule":
        choices = {"query_tiles": attention.query_tiles, "deterministic": deterministic}
        try:
            return place(draw(analysed, direction, target, ctas, **choices), analysed, target)
        except Unsupported as error:
            raise TargetError(str(error)) from None

    def of_backward(form: Form) -> "Schedule":
        return scheduled("backward", 1 if form.is_short else attention.ctas, form.deterministic)

    def short() -> int:
        return short_calls(analysed, limits_of(target)) if attention.ctas is None else 0

    schedule = scheduled("forward", attention.ctas if attention.splits == 1 else 1)  # a pair of CTAs visits all keys of its rows
    emitted, width_v = emit(analysed, schedule), attention.spec.head_dim_v
    if attention.on == "emulator":
        from attnspec.runtime.emulated_backward import EmulatedBackward
        from attnspec.runtime.emulated_program import EmulatedProgram

        def make_backward(form: Form) -> EmulatedBackward:
            schedule = of_backward(form)
            return EmulatedBackward(emit(analysed, schedule), schedule, learned)

        return Kernel(EmulatedProgram(emitted, schedule, width_v, None, attention.splits, make_backward, short))
    from attnspec.runtime.launched_program import LaunchedProgram

    def make_module(form: Form) -> "Emitted":
        return emit(analysed, of_backward(form))

    return Kernel(LaunchedProgram(emitted, width_v, learned, make_module, splits=attention.splits, short_calls=short))
