"""Solutions are shipped for every variant of the package, remembered for others, and verified wherever they come from."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from attnspec.backends.sm100.limits import LIMITS
from attnspec.lowering.analysis.analysed import ElementCost
from attnspec.lowering.dataflow.draw import draw
from attnspec.lowering.dataflow.forward import NO_TILES
from attnspec.lowering.schedule import find_solution
from attnspec.lowering.schedule.choose_tiles import choose_tiles
from attnspec.lowering.schedule.find_solution import key_of, rounded, shipped
from attnspec.lowering.schedule.place import ask, place
from attnspec.lowering.schedule.refusal import ScheduleError
from attnspec.lowering.schedule.search import Question
from attnspec.lowering.schedule.solution import solution_as_dict, solution_from_dict

from attnspec import stages, variants
from tests.lowering.by_hand import DOUBLED, analysed


def variant(name: str, direction: Literal["forward", "backward"] = "forward", ctas: int = 1) -> Question:
    read = stages.analyse(stages.read(variants.path(name)))
    tiles = choose_tiles(read, LIMITS) if direction == "forward" and ctas == 1 else NO_TILES
    return rounded(ask(draw(read, direction, ctas=ctas, tiles=tiles), read, LIMITS))


class Kept(dict[str, Mapping[str, Any]]):
    """A memory."""

    def find(self, key: str) -> Mapping[str, Any] | None:
        return self.get(key)

    def keep(self, key: str, data: Mapping[str, Any]) -> None:
        self[key] = json.loads(json.dumps(data))


@pytest.mark.parametrize("name", variants.names())
def test_every_variant_s_solution_is_shipped(name: str) -> None:
    """If not, a graph, a price or the search has changed: run tools/solve_schedules.py."""
    assert key_of(variant(name)) in shipped()
    if name != "mla":  # too wide for a backward
        assert key_of(variant(name, "backward")) in shipped()
        taken = stages.draw(stages.analyse(stages.read(variants.path(name))), "backward").ctas
        assert key_of(variant(name, "backward", taken)) in shipped()


def new() -> Question:
    """A question that no shipped solution answers."""
    dear = analysed(120, score=DOUBLED, score_cost=ElementCost(0.0, 77.0, 0.0, 0.0))
    return ask(draw(dear, "forward"), dear, LIMITS)


def test_new_graph_is_searched_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_solution, "_found", {})
    memory, told = Kept(), []
    found = [find_solution.find_solution(new(), memory, told.append) for _ in range(2)]
    assert [source for _, source in found] == ["searched", "remembered"]
    assert found[0][0] == found[1][0]
    assert told


@pytest.mark.parametrize("name", ["dense", "gemma2_local", "gpt_oss"])
def test_shipped_solution_is_what_a_search_finds(name: str) -> None:
    asked = variant(name)
    assert solution_as_dict(find_solution.search(asked).solution) == shipped()[key_of(asked)]


def test_solution_comes_back_from_json_as_it_was() -> None:
    solution = find_solution.search(variant("dense")).solution
    assert solution_from_dict(json.loads(json.dumps(solution_as_dict(solution)))) == solution


def test_remembered_solution_that_is_wrong_is_searched_anew() -> None:
    """Its tensor program has scores and products of a step in the wrong order."""
    dear = analysed(120, score=DOUBLED, score_cost=ElementCost(0.0, 77.0, 0.0, 0.0))
    good = find_solution.search(rounded(new())).solution
    swapped = [
        replace(role, program=(role.program[2], *role.program[:2], *role.program[3:])) if role.name == "mma" else role
        for role in good.roles
    ]
    memory = Kept({key_of(rounded(new())): solution_as_dict(replace(good, roles=tuple(swapped)))})
    assert place(draw(dear, "forward"), dear, LIMITS, memory).role_of("mma_qk[0]").program == good.roles[3].program


def test_damaged_memory_counts_as_none() -> None:
    nobody = [["mma", "mma", None, 0, 1, "mma_qk[0]"]]
    for roles in ([["mma"]], nobody, None):
        memory = Kept({key_of(rounded(new())): {"roles": roles, "separate": []}})
        assert find_solution.find_solution(new(), memory)[1] == "searched"


def test_what_the_file_s_own_score_costs_counts_by_powers_of_two() -> None:
    costs = [ElementCost(0.0, fma, 0.0, 0.0) for fma in (2.1, 3.9, 4.1)]
    keys = []
    for cost in costs:
        made = analysed(score=DOUBLED, score_cost=cost)
        keys.append(key_of(rounded(ask(draw(made, "forward"), made, LIMITS))))
    assert keys[0] == keys[1] != keys[2]


def test_shipped_solution_is_verified_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = analysed()
    asked = rounded(ask(draw(made, "forward"), made, LIMITS))
    bad = json.loads(json.dumps(shipped()[key_of(asked)]))
    program = bad["roles"][3][5].split()
    bad["roles"][3][5] = " ".join([program[2], *program[:2], *program[3:]])
    monkeypatch.setattr(find_solution, "shipped", lambda: {key_of(asked): bad})
    with pytest.raises(ScheduleError, match="unordered"):
        place(draw(made, "forward"), made, LIMITS)
