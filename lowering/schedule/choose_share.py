"""How many exponentials go to the FMA pipe (FA4, software exponential), by the cost model.

The special function unit is scarce, and a score's way through it is on the circle that bounds a step: both gain from a share of
exponentials emulated beside it. The model knows no register pressure, so where that unit is not the busiest of all the share
stays within what FA4's kernels were tuned to on hardware.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.assign_roles import assign_roles
from attnspec.lowering.schedule.complete import find_depths, statement
from attnspec.lowering.schedule.cost import EMULATED_SLOTS
from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.loop_problem import loop_problem
from attnspec.lowering.schedule.modulo import lower_bound
from attnspec.lowering.schedule.place_buffers import overlays_of, place_buffers
from attnspec.lowering.schedule.prices import Prices
from attnspec.lowering.schedule.schedule import Choices
from attnspec.lowering.schedule.turns import problem_in_turns

STEP = 1 / 16
TUNED = 0.25  # of the elements of a row: FA4 emulates 6 to 25 %
MOST = 0.875
MOST_UNPACKED = 0.375  # without packed arithmetic: issue slots run short before the model says so (measured on an H200)
EQUAL = 0.01  # a share must gain more than that to be preferred to a smaller one


# An odd polynomial of degree 21 in x clamped to 4 is as exact as tanh.approx (2^-11): eleven FMAs, a square, a product, a clamp.
TANH_SLOTS = 14.0


def choose_tanh(limits: Limits) -> Literal["hardware", "polynomial"]:
    """Where a hyperbolic tangent takes less of its unit's time; exponentials, which are cheaper to emulate, balance the units."""
    return "polynomial" if TANH_SLOTS / limits.fma_lanes < 1 / limits.exponentials else "hardware"


def choose_share(
    dataflow: Dataflow, dims: tuple[int, int], choices: Choices, limits: Limits, priced: Callable[[Choices], Prices]
) -> float:
    """The least share, in sixteenths, whose step is as short as that of the best.

    None where the FMA pipe takes longer over an exponential than the special function unit (sm_103 has twice of those).
    priced: prices under other choices.
    """
    if EMULATED_SLOTS / limits.fma_lanes > 1 / limits.exponentials:
        return 0.0
    cycles: dict[float, float] = {}
    share = 0.0
    while share <= (MOST_UNPACKED if dataflow.register_products else MOST):
        prices = priced(replace(choices, emulated_share=share))
        if share > TUNED and prices.bottleneck != "mufu":
            break
        cycles[share] = step_bound(dataflow, dims, limits, prices)
        share += STEP
    least = min(cycles.values())
    return min(share for share, found in cycles.items() if found <= least * (1 + EQUAL))


def step_bound(dataflow: Dataflow, dims: tuple[int, int], limits: Limits, prices: Prices) -> float:
    """Cycles of a step that no order beats: circles of waits, the busiest unit, the busiest role. Searches mostly reach it."""
    depths = find_depths(dataflow, dims, limits)
    columns = sum(item.size * depths[item.name] for item in dataflow.buffers if item.space == "tensor")
    apart = overlays_of(dataflow) if columns <= limits.tensor_columns else ()
    places = place_buffers(dataflow, depths, limits, statement(dims), apart)
    overlays = {item.buffer: item.overlays for item in places if item.overlays is not None}
    names = {step.operation: role.name for role in assign_roles(dataflow) for step in role.program}
    roles = {operation.name: names[operation.name] for operation in dataflow.operations if operation.rate == "step"}
    problem = loop_problem(dataflow, roles, depths, prices, overlays)
    return lower_bound(problem_in_turns(problem, dataflow, prices) if dataflow.register_products else problem)
