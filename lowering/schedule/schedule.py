"""Who does what, when, where: the `Draft` that the passes fill in, and the `Schedule` that `verify` alone makes of it.

Time. J counts KV steps and T work tiles, both for the life of the CTA, the same in every role. A role's program is a list of
steps; at trip t of a work tile it runs operation v for step t - stage(v), if that step exists. A channel's n-th use is an
affine function of (J, T), so no role carries a counter of its own: slot n mod depth, phase parity (n div depth) & 1.
"""

from dataclasses import dataclass, fields
from typing import Literal

from attnspec.lowering.dataflow.graph import Dataflow, Engine, Space
from attnspec.lowering.schedule.prices import Prices

from attnspec.language.diagnostics import InternalError


@dataclass(frozen=True)
class ProgramStep:
    """An operation in a role's program. stage: steps it lags behind the role's first (software pipelining)."""

    operation: str
    stage: int = 0


@dataclass(frozen=True)
class Role:
    """Warps that run one program. registers: per thread, after setmaxnreg (the same for all warps of a warpgroup).

    Roles of one `kind` run the same code on different query tiles (two softmax warpgroups); `query_tile` tells them apart.
    rolls: what lags in the last trip of a tile is done in the first trip of the next tile that has steps, not before it.
    """

    name: str
    kind: str
    warps: tuple[int, ...]
    registers: int
    program: tuple[ProgramStep, ...]
    query_tile: int | None = None
    rolls: bool = False


@dataclass(frozen=True)
class Uses:
    """Which use of a channel falls in step J of tile T: n = steps * J + tiles * T + offset."""

    steps: int
    tiles: int
    offset: int = 0


@dataclass(frozen=True)
class Arrivals:
    """What completes one phase of a barrier: so many arrivals by that engine, and for TMA so many bytes.

    at: whose barrier they go to, in a pair of CTAs: that of the CTA that signals; that of the leader, which then waits for both;
    or, of a joint operation, that of each.
    """

    count: int
    engine: Engine
    bytes: int = 0
    at: Literal["own", "leader", "each"] = "own"


@dataclass(frozen=True)
class Channel:
    """A hand-over between roles, or from an asynchronous unit: full[depth] and, unless implied, empty[depth] barriers.

    producer signals full after it has written; the first of `consumers` waits for it; after the last of them has read, empty
    is signalled, and the producer waits for that before it writes the slot again. Channels with one `ring` share barriers
    and slots (K and V in one ring: uses 2J and 2J+1). once_a_tile: used at the first (wait) and last (signal) step of a
    tile although its operations run every step, or where they open tiles: in either case only in tiles that have steps, and
    counted in these.
    empty None: another path implies it; `implied_by` says which.
    distance: the consumer's step J waits for the use of step J - distance, steps counted for the life of the CTA.
    """

    name: str
    ring: str
    producer: str
    consumers: tuple[str, ...]
    buffer: str | None
    depth: int
    uses: Uses
    full: Arrivals
    empty: Arrivals | None
    once_a_tile: bool = False
    implied_by: str = ""
    distance: int = 0


@dataclass(frozen=True)
class Placement:
    """Where a buffer's copies lie. offset, size: bytes in shared memory or 32-bit columns in tensor memory; size is of one copy.

    overlays: buffer whose place this one shares (P over S), safe because of the order that `verify` proves.
    stride: from one copy to the next (P: that of S); None is `size`.
    last: size of the last copy where it is shorter than the others, since only what is smaller comes there; None is `size`.
    """

    buffer: str
    space: Space
    offset: int
    size: int
    depth: int
    overlays: str | None = None
    stride: int | None = None
    last: int | None = None

    def start(self, copy: int) -> int:
        """First byte or column of a copy."""
        return self.offset + copy * (self.size if self.stride is None else self.stride)

    def end(self, copy: int | None = None) -> int:
        """The byte or column behind a copy; behind the last one if not given."""
        at = self.depth - 1 if copy is None else copy
        return self.start(at) + (self.size if self.last is None or at < self.depth - 1 else self.last)


# Largest relative error of 2^x by the polynomial of each degree (FA4, table of exp2 emulation).
EXPONENTIAL_ERRORS = {3: 8.8e-5, 4: 3.0e-6, 5: 1.4e-7}


@dataclass(frozen=True)
class Choices:
    """What the cost model decided beside roles and places.

    rescale_threshold: growth of the row maximum, in log2 units, up to which O is not rescaled (FA4, conditional rescaling).
    emulated_share: share of exponentials on the FMA pipe, by a polynomial of exponential_degree.
    cta_group: 1 or 2 CTAs a tensor operation.
    probability_split: columns of P whose arrival lets PV start; the rest follow. 0 where P stays in registers.
    tanh: on the special function unit, or by a polynomial on the FMA pipe.
    longest_first: work tiles differ in length, and come in that order; heads then share l2_bytes of the second-level cache.
    scatters: their lengths are not known until the call, and may come again and again; each CTA is given some of all places.
    grows: of a backward, they visit the more the longer sequences are, so that those in flight read whole heads.
    takes_turns: warpgroups that multiply begin their products in turn, so that one exponentiates while another multiplies.
    """

    rescale_threshold: float
    emulated_share: float
    exponential_degree: Literal[3, 4, 5]
    cta_group: Literal[1, 2]
    probability_split: int
    needs_row_max: bool
    longest_first: bool
    scatters: bool
    grows: bool
    l2_bytes: int
    tanh: Literal["hardware", "polynomial"] = "hardware"
    takes_turns: bool = False

    @property
    def exponential_error(self) -> float:
        """Largest relative error of a probability beside f32 roundings: of a polynomial, where it may be made by one."""
        return EXPONENTIAL_ERRORS[self.exponential_degree] if self.emulated_share else 0.0


@dataclass(frozen=True)
class Draft:
    """A schedule that nobody has verified: programs, channels, places, registers, and the choices behind them.

    shared_bytes: all of the block's shared memory: placements, then the barriers, then the tensor memory address.
    tensor_columns: columns allocated, a power of two.
    """

    dataflow: Dataflow
    target: str
    roles: tuple[Role, ...]
    channels: tuple[Channel, ...]
    placements: tuple[Placement, ...]
    choices: Choices
    head_dim: int
    head_dim_v: int
    element_bytes: int
    threads: int
    shared_bytes: int
    tensor_columns: int

    def role_of(self, operation: str) -> Role:
        """The role whose program holds an operation; KeyError if none does."""
        for role in self.roles:
            if any(step.operation == operation for step in role.program):
                return role
        raise KeyError(operation)

    def placement(self, buffer: str) -> Placement:
        """Where a buffer lies; KeyError if it is in registers."""
        for placement in self.placements:
            if placement.buffer == buffer:
                return placement
        raise KeyError(buffer)


@dataclass(frozen=True)
class Proof:
    """What `verify` found of `draft`, the one draft it holds for.

    prices: what operations of a step cost, on which interval and critical rest. interval: cycles a KV step in the steady loop,
    the maximum cycle ratio of the event graph; critical: the circle that has it, operations with the cycles until the next may
    begin. assumptions: orders that the proof takes from the chip and the ISA does not promise.
    """

    draft: Draft
    prices: Prices
    interval: float
    critical: tuple[tuple[str, float], ...]
    assumptions: tuple[str, ...]

    @property
    def step_cycles(self) -> float:
        """Cycles a KV step takes: the interval, or the work of the busiest unit where that is more."""
        return max(self.interval, self.prices.total(self.prices.bottleneck))


@dataclass(frozen=True)
class Schedule(Draft):
    """A verified schedule. Only `verify` makes one: its proof must be about just these fields."""

    proof: Proof

    def __post_init__(self) -> None:
        proved = self.proof.draft
        if any(getattr(self, item.name) != getattr(proved, item.name) for item in fields(Draft)):
            raise InternalError("a schedule was changed after it had been verified")
