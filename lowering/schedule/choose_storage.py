"""What is where in shared memory of a forward in registers: one ring or two, the output beside the queries or over them.

Where a ring holds two steps of keys and values, loads of a step wait for nothing of the step before, and the plain form is kept.
Where wide heads leave room for fewer, two things make room: rings of their own for keys and for values, whose slots are no larger
than what comes there, and an output that is staged over the queries, for which the next tile's queries have to wait. Then more
keys a step may fit. The model says what each is worth, the waits at a tile's end with it.
"""

from collections.abc import Iterator

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.forward_in_registers import PLAIN, Storage, fits_over_query, tile_shapes
from attnspec.lowering.schedule.complete import find_depths
from attnspec.lowering.schedule.find_solution import find_solution
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refusal import ScheduleError, Unsupported
from attnspec.lowering.schedule.search import EQUAL, Question, cycles_of_key

TWO_STEPS = 4  # slots of one ring for keys and values


def choose_storage(analysed: Analysed, limits: Limits) -> Storage:
    """The form of least cycles a key; of those that are equal the first. Where none fits, the plain one, to be refused."""
    try:
        question = _ask(analysed, limits, PLAIN)
        if find_depths(question.dataflow, question.dims, limits)["kv"] >= TWO_STEPS:
            return PLAIN
    except Unsupported:
        pass
    found: dict[Storage, float] = {}
    for form in _forms(analysed):
        try:
            question = _ask(analysed, limits, form)
            found[form] = cycles_of_key(question, find_solution(question)[0])
        except (Unsupported, ScheduleError):
            continue
    least = min(found.values(), default=0.0)
    return next((form for form, cost in found.items() if cost <= least * (1 + EQUAL)), PLAIN)


def _forms(analysed: Analysed) -> Iterator[Storage]:
    """The longest steps first, which have least to do beside what the model knows; of each length the simplest first."""
    for shape in reversed(range(len(tile_shapes(analysed)))):
        for over_query in (False, True) if fits_over_query(analysed) else (False,):
            yield from (Storage(separate, over_query, shape) for separate in (False, True))


def _ask(analysed: Analysed, limits: Limits, storage: Storage) -> Question:
    return ask(draw(analysed, "forward", in_registers=True, storage=storage), analysed, limits)
