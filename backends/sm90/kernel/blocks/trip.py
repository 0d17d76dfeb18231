"""One trip through the program of the attending role: which operation means which instructions. Runs while tracing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Mods, Tiles
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, await_full, before, find, slot
from attnspec.backends.cute.kernel.work import At
from attnspec.backends.sm90.kernel.blocks import scalar, softmax_step, staging, tensor_core, unseen
from attnspec.backends.sm90.kernel.blocks.held import GROUP_ROWS, Held, Place
from attnspec.backends.sm90.kernel.blocks.registers import keep, values
from attnspec.backends.sm90.kernel.blocks.rows import Element, masked, scored
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS, Plan
from cutlass import Float32, Int32

PRODUCTS = ("mma_qk", "mma_pv")
AWAITED = {"await_s": "mma_qk", "await_o": "mma_pv"}
# Of the exponentials, that come before the wait for the product; the second if `three_unmasked` (H200, the best of 1/4 to 3/4).
EARLY, EARLY_UNMASKED = 3 / 4, 1 / 4
FIRST_TURN = 2  # named barriers of the turns; 0 is the whole block's, 1 that of the warps that work


def once(plan: Plan, pipes: Pipes, stage: int, now: Now, side: Any) -> None:
    """Hand-overs that happen once a work tile, for the operations of one stage."""
    for step in plan.programs["attend"]:
        if step.stage == stage and step.operation != "finish":
            side(pipes, step.operation, step.lane, now, once=True)


def take_turn(plan: Plan, place: Place) -> None:
    """Wait until the warpgroup before has begun its products: while it exponentiates, this one multiplies (FA3, ping-pong)."""
    cute.arch.barrier(barrier_id=FIRST_TURN + place.group, number_of_threads=2 * GROUP_THREADS)


def pass_turn(plan: Plan, place: Place) -> None:
    """Let the next warpgroup begin."""
    following = (place.group + 1) % plan.warpgroups
    cute.arch.barrier_arrive(barrier_id=FIRST_TURN + following, number_of_threads=2 * GROUP_THREADS)


@cute.jit
def give_turn(plan: Plan, place: Place, is_start: cutlass.Constexpr):
    """At the start the last warpgroup lets the first begin; at the end the first takes the turn that is left over."""
    if cutlass.const_expr(plan.takes_turns and is_start):  # noqa: SIM102 decided while tracing
        if place.group == plan.warpgroups - 1:
            pass_turn(plan, place)
    if cutlass.const_expr(plan.takes_turns and not is_start):  # noqa: SIM102
        if place.group == 0:
            take_turn(plan, place)


@dataclass(frozen=True)
class Trips:
    """What the trips of one work tile have in common.

    q, rows: position and shared values of the thread's two rows. tile: its number, negative where it is done a second time.
    """

    plan: Plan
    tiles: Tiles
    pipes: Pipes
    mods: Mods
    place: Place
    held: Held
    at: At
    q: tuple[Any, Any]
    rows: tuple[Any, Any]
    tile: Any


def three_unmasked(plan: Plan, mods: Mods) -> bool:
    """Whether three warpgroups multiply, with a maximum and no mask. There an H200 wants other waits than elsewhere: few of the
    exponentials before that for the product, and keys and values asked for ahead (docs/notes/hopper.md)."""
    return plan.warpgroups > 2 and mods.mask is None and any(step.operation == "row_max" for step in plan.programs["attend"])


def operands_of(plan: Plan, now: Now) -> list[tuple[str, Now]]:
    """The products of a whole trip, and the steps that they are of."""
    return [(step.operation, now.back(step.stage)) for step in plan.programs["attend"] if step.operation in PRODUCTS]


def run_trip(
    trips: Trips,
    stages: tuple[int, ...],
    now: Now,
    key: Any,
    is_partial: bool,
    meanwhile: Callable[[Any], Any],
    there: Any = None,
) -> Any:
    """The operations of these stages, in the order of the program.

    key: tile of the step of stage 0; is_partial: some of it may be hidden, or the tile is done a second time.
    meanwhile: what else is done once the trip's products are begun; with a mask, where it is more, once maxima are found, if the
    trip finds any: exponentials, which come then, leave time for it. It is given a 0 that is known only then; what it gives is
    returned. there: whether operands of all products are known to be there (`are_full`), None where nobody asked.
    """
    plan, pipes = trips.plan, trips.pipes
    program = [step for step in plan.programs["attend"] if step.stage in stages and step.operation != "finish"]
    products = [step for step in program if step.operation in PRODUCTS]
    in_turn = plan.takes_turns and len(stages) > 1
    if trips.mods.hides and any(step.operation == "mma_pv" for step in program) and (is_partial or 0 not in stages):
        _clear_again(trips, now)
    trip, found = _Trip(trips, key, is_partial), None
    waits = trips.mods.mask is not None and any(step.operation == "row_max" for step in program)
    for step in program:
        own = now.back(step.stage)
        if there is None or step not in products:
            before(pipes, step.operation, step.lane, own)
        elif step == products[0]:
            await_full(pipes, operands_of(plan, now), there)
        if in_turn and step == products[0]:
            take_turn(plan, trips.place)
        trip.do(step.operation, own)
        if in_turn and step == products[-1]:
            pass_turn(plan, trips.place)
        if step == products[-1]:
            # Waits for nothing; but ptxas moves what stands between a product and the next wait behind that.
            tensor_core.wait(len(trip.begun))
            found = None if waits else meanwhile(Int32(0))
        after(pipes, step.operation, step.lane, own, behind=trip.behind(step.operation))
        if step.operation == "row_max" and waits:
            found = meanwhile(scalar.zero_after(values(trips.held.maxima)[0]))
    keep(trips.held.o, trip.o)
    return found


def _clear_again(trips: Trips, now: Now) -> None:
    """Where a tile is done a second time: values without what is not finite, before any product of the trip is begun."""
    stage = next(step.stage for step in trips.plan.programs["attend"] if step.operation == "mma_pv")
    _clear_if(trips.plan, trips.pipes, trips.place, trips.tiles, trips.tile, now.back(stage))


@cute.jit
def _clear_if(plan: Plan, pipes: Pipes, place: Place, tiles: Tiles, tile: Int32, now: Now):
    if tile < 0:
        before(pipes, "mma_pv", None, now)
        ring = plan.values
        unseen.clear(plan, tiles.shared + ring.offset + slot(find(pipes, "v"), now) * ring.stride, place)


class _Trip:
    """Values of one trip, by the names of what makes them. A method an operation."""

    def __init__(self, trips: Trips, key: Any, is_partial: bool) -> None:
        self.plan, self.mods, self.place, self.held, self.at = trips.plan, trips.mods, trips.place, trips.held, trips.at
        self.tiles, self.pipes, self.trips = trips.tiles, trips.pipes, trips
        self.key, self.is_partial = key, is_partial
        self.o = values(self.held.o)
        self.s: list[Float32] = []
        self.factors: list[Float32] = []
        self.shifts: list[Float32] = []
        self.begun: list[str] = []

    def do(self, operation: str, now: Now) -> None:
        """One operation."""
        if operation in AWAITED:
            self.wait(AWAITED[operation])
        getattr(self, operation)(now)

    def behind(self, operation: str) -> Float32 | None:
        """What an operation signals behind: the maximum, or ptxas would signal before there is one, and wait for the product."""
        return values(self.held.maxima)[0] if operation == "row_max" else None

    def wait(self, product: str) -> None:
        """Until a product is done; those begun after it may still run."""
        at = self.begun.index(product)
        self.begun = self.begun[at + 1 :]
        tensor_core.wait(len(self.begun))

    def mma_qk(self, now: Now) -> None:
        """Begin the step's scores."""
        plan = self.plan
        self.fetched = self._fetched()
        shared = self.tiles.shared
        q = shared + plan.q_offset + self.place.group * (GROUP_ROWS * plan.row_bytes)
        k = shared + plan.keys.offset + slot(find(self.pipes, "k"), now) * plan.keys.stride
        starts = (tensor_core.descriptor_start(q), tensor_core.descriptor_start(k))
        self.s = tensor_core.query_key(*starts, plan.width_qk, (plan.tile_q, plan.tile_kv), plan.is_bf16)
        self.begun.append("mma_qk")

    def mma_pv(self, now: Now) -> None:
        """Begin the product with V."""
        plan = self.plan
        v = self.tiles.shared + plan.values.offset + slot(find(self.pipes, "v"), now) * plan.values.stride
        start = tensor_core.descriptor_start(v)
        self.o = tensor_core.probability_value(self.o, values(self.held.p), start, plan.tile_kv, plan.is_bf16)
        self.begun.append("mma_pv")

    def _first_key(self) -> Any:
        return self.at.kv_first + self.key * self.plan.tile_kv

    def _fetched(self) -> list[list[Any]]:
        first_q = self.at.q_first + self.place.group * GROUP_ROWS
        return staging.fetch(self.plan, self.mods, self.at, self._first_key(), first_q, self.place.thread, self.is_partial)

    def await_s(self, now: Now) -> None:
        """The scores are there."""
        staged = None
        if self.mods.stages:
            plan, group = self.plan, self.place.group
            address = self.tiles.shared + plan.staged_offset + group * plan.staged_stride
            places = [row - group * GROUP_ROWS for row in self.place.rows]
            staged = staging.put(plan, self.mods, self.fetched, address, self.place.thread, group, places)
        first = self._first_key() + self.place.lane % 4 * 2
        self.element = Element(self.trips.q, first, self.at, self.trips.rows, staged).renewed()
        if self.mods.score is None:
            self.s = scored(self.mods, self.s, self.element)

    def score(self, now: Now) -> None:
        """The file's score."""
        self.s = scored(self.mods, self.s, self.element)

    def mask(self, now: Now) -> None:
        """The file's mask, and the end of the keys."""
        if self.is_partial:
            self.s = masked(self.mods, self.s, self.element)

    def row_max(self, now: Now) -> None:
        """The running maximum, and the factors of what was summed under the one before."""
        old = values(self.held.maxima)
        found = [softmax_step.new_maximum(self.plan, self.mods, self.s, old[row], row) for row in range(2)]
        self.shifts, self.factors = [shift for _, shift, _ in found], [factor for _, _, factor in found]
        keep(self.held.maxima, [now for now, _, _ in found])

    def exp(self, now: Now) -> None:
        """Scores to probabilities, not yet divided: most of them; the rest stands behind the wait for the product."""
        early = EARLY_UNMASKED if three_unmasked(self.plan, self.mods) else EARLY
        self.done = self.exponentials(range(int(len(self.s) * early) // 4 * 4))
        self.shares = [softmax_step.sum_of_row(self.done, row) for row in range(2)]

    def exponentials(self, part: range, o: Any = None) -> list[Float32]:
        """Some of the step's."""
        shifts = self.shifts or [softmax_step.shift(self.mods, one) for one in values(self.held.maxima)]
        return softmax_step.exponentials(self.plan, self.mods, self.s, shifts, part, o)

    def row_sum(self, now: Now) -> None:
        """Comes with the rest of the exponentials, in `convert`."""

    def add_sums(self, shares: list[Float32]) -> None:
        """The thread's shares of the rows' sums, of this step, to those of the steps before."""
        sums = values(self.held.sums)
        if self.factors:
            found = [scalar.fused(sums[row], self.factors[row], shares[row]) for row in range(2)]
        else:
            found = [scalar.plus(sums[row], shares[row]) for row in range(2)]
        keep(self.held.sums, found)

    def convert(self, now: Now) -> None:
        """Probabilities in the 16-bit type, as the product takes them."""
        rest = self.exponentials(range(len(self.done), len(self.s)), self.o[0])
        self.add_sums([scalar.plus(self.shares[row], softmax_step.sum_of_row(rest, row)) for row in range(2)])
        self.s = [*self.done, *rest]
        keep(self.held.p, scalar.narrow_here(self.s, self.plan.element))

    def await_o(self, now: Now) -> None:
        """The product is there."""

    def rescale(self, now: Now) -> None:
        """O under the new maximum."""
        if not self.plan.rescale_threshold:
            self.o = softmax_step.scaled_rows(self.o, self.factors)
            return
        keep(self.held.o, self.o)
        softmax_step.scale_if_needed(self.held.o, *self.factors)
        self.o = values(self.held.o)
