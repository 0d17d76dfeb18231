"""One step through the program of the backward's attending role: which operation means which instructions. Runs while tracing."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.backward_bundles import BackwardMods, BackwardTiles
from attnspec.backends.cute.kernel.blocks import f32, strips
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from attnspec.backends.cute.kernel.pipes import Now, Pipes, after, before, find, slot
from attnspec.backends.sm90.kernel.backward_plan import BackwardPlan
from attnspec.backends.sm90.kernel.blocks import gradient_core, gradient_output, gradient_step, learned_gradient, tensor_core
from attnspec.backends.sm90.kernel.blocks.gradient_step import Element
from attnspec.backends.sm90.kernel.blocks.held import GROUP_ROWS, Place
from attnspec.backends.sm90.kernel.blocks.registers import array, keep, values
from attnspec.backends.sm90.kernel.plan import GROUP_THREADS
from cutlass import Float32, Int32

AWAITED = {"await_s": "mma_s", "await_dp": "mma_dp", "await_dv": "mma_dv", "await_dk": "mma_dk", "await_dq": "mma_dq"}
AFTER_THE_LAST = ("store_dv", "store_dk")
BOTH_HAVE_WRITTEN, BOTH_HAVE_READ = 1, 2  # named barriers of the two warpgroups; 0 is the whole block's


# Part of the probabilities that there must be before dP is waited for, by queries of a step: on an H200 the best of 1/4 to all.
EARLY = {64: 1 / 4, 80: 1 / 4, 128: 1 / 2}


@dataclass(frozen=True)
class Held:
    """This thread's parts of dK and dV of the key tile at hand."""

    dk: Any
    dv: Any


def hold(plan: BackwardPlan) -> Held:
    """Room for them."""
    return Held(array(plan.dk_width // 2), array(plan.dv_width // 2))


def hold_back(words: Sequence[Int32]) -> None:
    """Never does anything. But ptxas moves a wait for a product before all arithmetic that does not hang on it, and not across a
    branch: so exponentials run beside the product. words: probabilities, which are never negative."""
    _pause_if_negative(reduce(lambda one, other: one | other, words))


@cute.jit
def _pause_if_negative(word: Int32):
    if word < 0:
        ptx("nanosleep.u32 0;")


def program_of(plan: BackwardPlan) -> list[str]:
    """Operations of a step, in order."""
    return [step.operation for step in plan.programs["attend"] if step.operation not in AFTER_THE_LAST]


def once(plan: BackwardPlan, pipes: Pipes, now: Now, side: Any) -> None:
    """Hand-overs that happen once a work tile."""
    for operation in program_of(plan):
        side(pipes, operation, None, now, once=True)


@dataclass(frozen=True)
class Trips:
    """What all trips have in common. sums: what learned tensors have gathered in registers. row_tile: the query tile's number."""

    plan: BackwardPlan
    tiles: BackwardTiles
    pipes: Pipes
    mods: BackwardMods
    place: Place
    held: Held
    sums: Any
    row_tile: Any


def run_trip(trips: Trips, now: Now, element: Element, is_partial: bool) -> None:
    """A step, in the order of the program. is_partial: some of it may be hidden."""
    trip = _Trip(trips, element, is_partial)
    for operation in program_of(trips.plan):
        before(trips.pipes, operation, None, now)
        trip.do(operation, now)
        after(trips.pipes, operation, None, now)


class _Trip:
    """Values of one step, by the names of what makes them. A method an operation."""

    def __init__(self, trips: Trips, element: Element, is_partial: bool) -> None:
        self.plan, self.tiles, self.pipes, self.mods = trips.plan, trips.tiles, trips.pipes, trips.mods
        self.place, self.held, self.sums, self.row_tile = trips.place, trips.held, trips.sums, trips.row_tile
        self.element, self.is_partial = element, is_partial
        self.begun: list[str] = []

    def do(self, operation: str, now: Now) -> None:
        """One operation."""
        if operation in AWAITED:
            at = self.begun.index(AWAITED[operation])
            self.begun = self.begun[at + 1 :]
            tensor_core.wait(len(self.begun))
        elif operation.startswith("mma_"):
            self.begun.append(operation)
        getattr(self, operation)(now)

    def start_of(self, name: str, now: Now, offset: Any = 0) -> Any:
        """Start of a tile as descriptors have it. offset: bytes into it."""
        plan = self.plan
        at = self.tiles.shared + getattr(plan, f"{name}_offset") + offset
        if name in ("q", "do"):
            at = at + slot(find(self.pipes, name), now) * getattr(plan, f"{name}_stride")
        return tensor_core.descriptor_start(at)

    def own_keys(self, name: str, now: Now) -> Any:
        """Start of the warpgroup's own rows of k or v."""
        return self.start_of(name, now, self.place.group * (GROUP_ROWS * self.plan.row_bytes))

    def part_of(self, head_dim: int, rows: int) -> Any:
        """Bytes from the start of a tile of so many rows to the columns at hand."""
        return 0 if self.plan.parts == 1 else self.element.at.part * self.plan.step_bytes(rows, head_dim)

    def numbers(self, plane: int, now: Now) -> Any:
        """Where a number of each of the thread's queries lies."""
        plan = self.plan
        start = self.tiles.shared + plan.rows_offset + slot(find(self.pipes, "rows"), now) * plan.rows_stride
        return start + plane * plan.tile_q * 4 + self.place.lane % 4 * 8

    def mma_s(self, now: Now) -> None:
        """Begin S^T = K Q^T."""
        plan = self.plan
        starts = (self.own_keys("k", now), self.start_of("q", now))
        self.s = tensor_core.query_key(*starts, plan.width_qk, (plan.tile_kv, plan.tile_q), plan.is_bf16)

    def mma_dp(self, now: Now) -> None:
        """Begin dP^T = V dO^T."""
        plan = self.plan
        starts = (self.own_keys("v", now), self.start_of("do", now))
        self.dp = tensor_core.query_key(*starts, plan.width_v, (plan.tile_kv, plan.tile_q), plan.is_bf16)

    def read_lse(self, now: Now) -> None:
        """Begin to read the log-sum-exp of the step's queries."""
        plan = self.plan
        self.minus_lse = gradient_step.RowNumbers(self.numbers(0, now), plan.score_count, plan.lse_ahead)

    def read_delta(self, now: Now) -> None:
        """Begin to read their delta."""
        plan = self.plan
        self.minus_delta = gradient_step.RowNumbers(self.numbers(1, now), plan.score_count, plan.delta_ahead)

    def await_s(self, now: Now) -> None:
        """The scores are there."""
        self.element = self.element.renewed()

    def score(self, now: Now) -> None:
        """The file's score, and its slope: with `exp`, a few at a time."""

    def mask(self, now: Now) -> None:
        """The file's mask, and the ends of the sequences: the same."""

    def exp(self, now: Now) -> None:
        """Probabilities."""
        step = (self.mods, self.s, self.element, self.is_partial)
        self.weights = gradient_step.weights_of(*step, self.minus_lse, self.plan.element)
        if self.mods.is_folded and not self.mods.learned:
            words = self.weights.words
            hold_back(words[: int(len(words) * EARLY[self.plan.tile_q])])

    def mma_dv(self, now: Now) -> None:
        """Begin dV += P^T dO."""
        plan = self.plan
        start = self.start_of("do", now, self.part_of(plan.head_dim_v, plan.tile_q))
        self.dv = tensor_core.probability_value(values(self.held.dv), self.weights.words, start, plan.tile_q, plan.is_bf16)

    def await_dv(self, now: Now) -> None:
        """The product is there."""
        keep(self.held.dv, self.dv)

    def await_dp(self, now: Now) -> None:
        """The product is there."""

    def ds(self, now: Now) -> None:
        """d(score), its shares of learned tensors, and its values as products take them."""
        mods = self.mods
        careful = self.is_partial or not mods.is_folded
        found = gradient_step.score_gradients(self.weights.factors, self.dp, self.minus_delta, careful)
        # Rounded before shares are taken, and scores kept only for who wants them: registers are few there.
        self.ds_words = f32.narrow(gradient_step.weighted(found, self.weights.slopes), self.plan.element)
        if mods.learned:
            raws = gradient_step.scaled(mods, self.s, self.element) if mods.merges else [Float32(0.0)] * len(found)
            staged = strips.start(self.plan, self.tiles, self.pipes, now) if self.plan.strips_stride else None
            learned_gradient.gather(self.plan, self.tiles, mods, staged, self.sums, found, raws, self.element)

    def share_ds(self, now: Now) -> None:
        """dS where both warpgroups read it."""
        if self.plan.ds_slots == 1:
            self.meet(BOTH_HAVE_READ)
        gradient_output.write_ds(self.plan, self.tiles, self.place, now.steps, self.ds_words)

    def meet(self, barrier: int) -> None:
        """Wait for the other warpgroup."""
        cute.arch.barrier(barrier_id=barrier, number_of_threads=2 * GROUP_THREADS)

    def mma_dq(self, now: Now) -> None:
        """Begin dQ = dS K, once both warpgroups have written their part of dS."""
        cute.arch.fence_proxy("async.shared", space="cta")
        self.meet(BOTH_HAVE_WRITTEN)
        plan, group = self.plan, self.place.group
        rows = group * (plan.dq_queries * plan.row_bytes) if plan.splits_queries else 0
        columns = Int32(0) if plan.splits_queries else group * (plan.tile_kv * plan.row_bytes)
        k = self.start_of("k", now, columns + self.part_of(plan.head_dim, plan.tile_kv))
        ds = tensor_core.descriptor_start(self.tiles.shared + gradient_output.ds_start(plan, now.steps) + rows)
        self.dq = gradient_core.query_gradient(k, ds, plan.tile_kv, plan.tile_q, plan.dq_queries, plan.is_bf16)

    def await_dq(self, now: Now) -> None:
        """The product is there."""

    def stage_dq_0(self, now: Now) -> None:
        """dQ to where it is added up from; where it goes there in two chunks, that of the first warpgroup."""
        self.stage_dq(0, now)

    def stage_dq_1(self, now: Now) -> None:
        """That of the second."""
        self.stage_dq(1, now)

    def stage_dq(self, chunk: int, now: Now) -> None:
        """A chunk of dQ."""
        if self.plan.dq_chunks == 1:
            gradient_output.write_dq(self.plan, self.tiles, self.pipes, now, self.place, self.dq)
        else:
            gradient_output.write_own_dq(self.plan, self.tiles, self.pipes, now, self.place, chunk, tuple(self.dq))

    def mma_dk(self, now: Now) -> None:
        """Begin dK += dS^T Q."""
        plan = self.plan
        start = self.start_of("q", now, self.part_of(plan.head_dim, plan.tile_q))
        self.dk = tensor_core.probability_value(values(self.held.dk), self.ds_words, start, plan.tile_q, plan.is_bf16)

    def await_dk(self, now: Now) -> None:
        """The product is there."""
        keep(self.held.dk, self.dk)
