"""Search the schedules that the package ships: `python tools/solve_schedules.py` writes lowering/schedule/solved.json anew.

To be run when a graph, the cost table, the chip's limits or the search has changed; a test says so. Questions are those of every
variant of the package, and of plain variants of every head dimension with scores of several costs.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import Analysed, ElementCost
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.schedule.choose_backward_ctas import choose_backward_ctas
from attnspec.lowering.schedule.choose_tiles import choose_tiles
from attnspec.lowering.schedule.find_solution import SHIPPED, key_of, rounded
from attnspec.lowering.schedule.place import ask
from attnspec.lowering.schedule.refusal import Unsupported
from attnspec.lowering.schedule.refuse_unsupported import refuse_unsupported
from attnspec.lowering.schedule.search import Question, search
from attnspec.lowering.schedule.solution import solution_as_dict

from attnspec import stages, variants

DIMS = (*((dim, dim) for dim in range(8, 129, 8)), (192, 128), (256, 256))
COSTS = (0.0, 1.0, 2.0, 4.0, 8.0)  # FMA instructions of a score, an element
PLAIN = "attention plain\nhead_dim {dims}\nscore = {score}\n"


def questions() -> Iterator[Analysed]:
    """Every variant whose schedule is shipped."""
    for name in variants.names():
        yield stages.analyse(stages.read(variants.path(name)))
    for dims in DIMS:
        for score in ("score", "score + 1.0", "softcap(score, 30.0)"):
            found = stages.analyse(stages.read(PLAIN.format(dims="{}, {}".format(*dims), score=score)))
            for cost in COSTS if score != "score" else COSTS[:1]:
                yield replace(found, score_cost=ElementCost(0.0, cost, 0.0, 0.0)) if cost else found


def kernels(analysed: Analysed) -> Iterator[Question]:
    """The forward and the backward of a variant, where the chip can run them; of pairs of CTAs too where the model finds them."""
    try:
        refuse_unsupported(analysed, LIMITS)
        yield rounded(ask(draw(analysed, "forward", tiles=choose_tiles(analysed, LIMITS)), analysed, LIMITS))
        for ctas in range(1, choose_backward_ctas(analysed, LIMITS) + 1):
            yield rounded(ask(draw(analysed, "backward", ctas=ctas), analysed, LIMITS))
    except Unsupported:
        return


def solve() -> dict[str, object]:
    """The file's content: solutions, each once, and which question has which."""
    solutions: list[object] = []
    asked: dict[str, int] = {}
    for analysed in questions():
        for question in kernels(analysed):
            key = key_of(question)
            if key not in asked:
                found = solution_as_dict(search(question).solution)
                solutions += [] if found in solutions else [found]
                asked[key] = solutions.index(found)
                print(key, analysed.spec.name, question.dataflow.direction, question.dims, asked[key], flush=True)
    return {"solutions": solutions, "questions": asked}


def main() -> None:
    """Write the file."""
    path = Path(__file__).parent.parent / "lowering" / "schedule" / SHIPPED
    path.write_text(json.dumps(solve(), indent=1) + "\n")


if __name__ == "__main__":
    main()
