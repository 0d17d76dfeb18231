"""Hand-overs between roles: which barrier an operation waits for and which it signals.

A role says only `before(...)` and `after(...)` around each operation; which barriers that means is read off the pipe table, a
line an edge of the schedule. All of this runs while the kernel is traced: what a variant lacks leaves no instruction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks import pair
from attnspec.backends.cute.kernel.blocks.fences import fence
from attnspec.backends.cute.kernel.blocks.ptx import ODD_NAN, ptx
from attnspec.backends.cute.kernel.lane_pipes import Single, signal_for_lanes, wait_for_lanes
from attnspec.backends.cute.kernel.plan import Step
from cutlass import Int32, Uint32
from cutlass.cute.nvgpu import tcgen05

Engine = Literal["tma", "tensor", "threads"]
Place = Literal["own", "leader", "each"]
Edge = Literal["", "first", "last"]  # of a tile, a trip that runs a role's first or last stage alone
Lane = int | Int32 | None
BARRIER_BYTES = 8
PARITY_BIT = 8  # of a ring's slot and parity in one number


@dataclass(frozen=True)
class Pipe:
    """One edge. produce, wait and release name operations; `[*]` in all of them means a copy for each lane: query tile in flight,
    or key tile of a step.

    full, empty: index of the first barrier (empty None: implied by other pipes). copies lie `depth` barriers apart.
    uses (a, b, c): the n-th use is a * steps + b * tiles + c, counted for the life of the CTA; slot n mod depth, parity
    (n div depth) & 1. full_by, empty_by: engine that signals. fences: what must precede a signal by threads.
    full_at, empty_at: whose barrier is signalled in a pair of CTAs: "own"; "leader", the one that issues joint operations,
    by both; "each", both by one. bytes: what this CTA brings.
    once: used once a work tile, at the first step (wait) and after the last (signal), and not in tiles without steps.
    distance: the waiting operation uses what the producer left that many steps before; in a tile's first trip what it left last,
    if that is more than a step; and of a step to come, in its last trip, nothing.
    seldom: the operation waits only where it touches what the producer left, see `await_seldom`.
    """

    name: str
    produce: str
    wait: str
    release: str
    full: int
    empty: int | None
    depth: int
    uses: tuple[int, int, int]
    full_by: Engine
    full_count: int
    empty_by: Engine | None = None
    empty_count: int = 0
    bytes: int = 0
    full_fence: str = ""
    empty_fence: str = ""
    once: bool = False
    distance: int = 0
    full_at: Place = "own"
    empty_at: Place = "own"
    seldom: bool = False

    @property
    def copies(self) -> bool:
        """Whether there is one of these for each lane."""
        return self.produce.endswith("[*]")


@dataclass(frozen=True)
class Pipes:
    """The pipe table and where its barriers are. barriers: shared-memory pointer to 64-bit words.

    lanes: of each warp that signal at a barrier of the own CTA: 1, chosen when the others have come; or all 32, each for itself,
    which needs no meeting of the warp before.
    """

    barriers: Any
    table: tuple[Pipe, ...]
    lanes: int = 1

    def arrivals(self, count: int, engine: Engine | None, at: Place) -> int:
        """What a barrier counts, where `count` warps, or another engine, signal."""
        return count * self.lanes if engine == "threads" and at == "own" else count


@dataclass(frozen=True)
class Now:
    """How many steps, tiles, and tiles that have steps this CTA has behind it, at the operation at hand (Int32 each).

    known: slot and parity of rings, by name, that were worked out before they were wanted (`worked_out`).
    """

    steps: Any
    tiles: Any
    full_tiles: Any
    known: tuple[tuple[str, Any, Any], ...] = ()

    def back(self, steps: int) -> "Now":
        """The same for an operation of so many steps before. What is known of a ring is of the stage that uses it."""
        return replace(self, steps=self.steps - steps) if steps else self


def init(pipes: Pipes, lanes: int) -> None:
    """Initialise every barrier; one thread calls this, before any other thread touches one."""
    done: set[int] = set()
    for pipe in pipes.table:
        full = (pipe.full, pipes.arrivals(pipe.full_count, pipe.full_by, pipe.full_at))
        empty = (pipe.empty, pipes.arrivals(pipe.empty_count, pipe.empty_by, pipe.empty_at))
        for first, count in (full, empty):
            if first is None or first in done:
                continue
            done.add(first)
            for slot in range(pipe.depth * (lanes if pipe.copies else 1)):
                cute.arch.mbarrier_init(pipes.barriers + first + slot, count)


def _is_at(place: str, operation: str, lane: Lane) -> bool:
    """Whether an operation of this lane is the one a pipe names; a dynamic lane matches only `[*]` and unnumbered places."""
    if place == operation or place == f"{operation}[*]":
        return True
    return isinstance(lane, int) and place == f"{operation}[{lane}]"


def _single_lane(place: str, operation: str, lane: Lane) -> int | None:
    """Lane that a pipe names where the role only knows its own at run time, else None."""
    if isinstance(lane, Int32) and place.startswith(f"{operation}[") and not place.endswith("[*]"):
        return int(place[len(operation) + 1 : -1])
    return None


def _use(pipe: Pipe, now: Now, distance: int) -> Any:
    """Number of a use, moved up by whole turns of both parities where it could be negative."""
    steps, tiles, offset = pipe.uses
    count = now.full_tiles if pipe.once else now.tiles
    use = Int32(offset - steps * distance + 2 * pipe.depth * steps * max(distance, 0))
    if steps:
        use = use + (now.steps if steps == 1 else now.steps * steps)
    if tiles:
        use = use + (count if tiles == 1 else count * tiles)
    return use


def slot(pipe: Pipe, now: Now, distance: int = 0) -> Any:
    """Slot of a pipe's ring that this step uses."""
    for name, known, _ in now.known if not distance else ():
        if name == pipe.name:
            return known
    return Int32(0) if pipe.depth == 1 else Int32(Uint32(_use(pipe, now, distance)) % pipe.depth)


def worked_out(pipes: Pipes, program: Sequence[Step], now: Now) -> list[Any]:
    """Slot and parity of each ring that the program's operations use at this step, a number a ring, to be made `known` then.

    A division a ring: where it stands at a step's beginning, all that comes after waits for it.
    """
    rings = ((pipe, now.back(stage)) for pipe, stage in _rings(pipes, program))
    return [slot(pipe, own) | _parity(pipe, own, 0) << PARITY_BIT for pipe, own in rings]


def known(pipes: Pipes, program: Sequence[Step], found: Sequence[Any]) -> tuple[tuple[str, Any, Any], ...]:
    """What was worked out, by ring."""
    names = [pipe.name for pipe, _ in _rings(pipes, program)]
    slots, parities = [one & (1 << PARITY_BIT) - 1 for one in found], [one >> PARITY_BIT for one in found]
    return tuple(zip(names, slots, parities, strict=True))


def _rings(pipes: Pipes, program: Sequence[Step]) -> list[tuple[Pipe, int]]:
    """Rings that operations of one stage alone consume, and that stage."""
    found = []
    for pipe in pipes.table:
        stages = {step.stage for step in program if step.operation in (pipe.wait, pipe.release)}
        if len(stages) == 1 and pipe.depth > 1 and not (pipe.once or pipe.distance or pipe.copies):
            found.append((pipe, *stages))
    return found


def copy(pipe: Pipe, lane: int | None, now: Now) -> Any:
    """Number of the copy of a pipe's buffer that this step uses, among the slots of all lanes."""
    if not pipe.copies or lane is None:
        return slot(pipe, now)
    return lane if pipe.depth == 1 else slot(pipe, now) + lane * pipe.depth


def _parity(pipe: Pipe, now: Now, distance: int) -> Any:
    for name, _, known in now.known if not distance else ():
        if name == pipe.name:
            return known
    use = _use(pipe, now, distance)
    return use & 1 if pipe.depth == 1 else Int32((Uint32(use) // pipe.depth) & 1)


def barrier(pipes: Pipes, pipe: Pipe, first: int, lane: Lane, now: Now, distance: int = 0) -> Any:
    """Pointer to the barrier at hand of a pipe's full or empty array."""
    return pipes.barriers + _index(pipe, first, lane, now, distance)


def _index(pipe: Pipe, first: int, lane: Lane, now: Now, distance: int = 0) -> Any:
    index: Any = first if pipe.depth == 1 else slot(pipe, now, distance) + first
    if pipe.copies:
        index = index + lane * pipe.depth
    return index


def find(pipes: Pipes, name: str, lane: Lane = None) -> Pipe:
    """The pipe of that name, or the one of that name and query tile."""
    return next(pipe for pipe in pipes.table if pipe.name in (name, f"{name}[{lane}]"))


def producing(pipes: Pipes, operation: str, lane: Lane) -> Pipe:
    """The pipe whose data `operation` writes."""
    return next(pipe for pipe in pipes.table if _is_at(pipe.produce, operation, lane))


def are_full(pipes: Pipes, operations: Sequence[tuple[str, Now]]) -> Any:
    """Whether the slots that operations read of rings, each at its own step, are full by now (Int32). All that those operations
    would wait for is what TMA brings; who asks has waited for the uses before."""
    found: Any = Int32(1)
    text = "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [{$r0}], {$r1}; selp.s32 {$w0}, {$r2}, 0, p; }"
    for pointer, parity in _barriers_read(pipes, operations):
        found = ptx(text, pointer, parity, found, returns=[Int32])
    return found


def await_full(pipes: Pipes, operations: Sequence[tuple[str, Now]], are_known: Any) -> None:
    """Wait for those, unless they were all full when the warp asked (`are_full`)."""
    found = _barriers_read(pipes, operations)
    test = "LATER{0}: mbarrier.try_wait.parity.shared.b64 p, [{{$r{1}}}], {{$r{2}}}; @!p bra.uni LATER{0};"
    waits = " ".join(test.format(at, 2 * at + 1, 2 * at + 2) for at in range(len(found)))
    text = f"{{ .reg .pred p; setp.ne.s32 p, {{$r0}}, 0; @p bra.uni THERE; {waits} THERE: }}"
    ptx(text, are_known, *(one for pair in found for one in pair))


def _barriers_read(pipes: Pipes, operations: Sequence[tuple[str, Now]]) -> list[tuple[Any, Any]]:
    """Address and parity of each ring's barrier."""
    found = [(pipe, now) for operation, now in operations for pipe in pipes.table if pipe.wait == operation and not pipe.once]
    pointers = [barrier(pipes, pipe, pipe.full, None, now) for pipe, now in found]
    return [(Int32(pointer.toint()), Int32(_parity(*use, 0))) for pointer, use in zip(pointers, found, strict=True)]


def before(pipes: Pipes, operation: str, lane: Lane, now: Now, once: bool = False, edge: Edge = "") -> None:
    """Wait for all that `operation` needs: inputs that are full, outputs that are empty.

    once False: the pipes of every step; True: those used once a work tile. A TMA producer also announces its bytes.
    """
    of_lanes: tuple[list[Single], list[Single]] = ([], [])  # waits of one lane each: for what is full, for what is empty
    for pipe in pipes.table:
        if pipe.once == once:
            if not pipe.seldom and (edge != "last" or pipe.distance >= 0):
                distance = min(pipe.distance, 1) if edge == "first" else pipe.distance
                of_lanes[0].extend(_wait_full(pipes, pipe, operation, lane, now, distance))
            if _is_at(pipe.produce, operation, lane):
                _wait_empty(pipes, pipe, lane, now)
            elif (only := _single_lane(pipe.produce, operation, lane)) is not None and pipe.empty is not None:
                index = _index(pipe, pipe.empty, lane, now)
                of_lanes[1].append(Single(only, index, _parity(pipe, now, 0) ^ 1, pipe.empty_fence))
    for singles in of_lanes:
        wait_for_lanes(pipes.barriers, lane, singles)


def await_seldom(pipes: Pipes, operation: str, lane: int, now: Now) -> None:
    """The waits that `before` leaves to runs in which the operation does something; the lane is one known while tracing."""
    for pipe in pipes.table:
        if pipe.seldom:
            _wait_full(pipes, pipe, operation, lane, now, pipe.distance)


def _wait_full(pipes: Pipes, pipe: Pipe, operation: str, lane: Lane, now: Now, distance: int) -> list[Single]:
    """Wait if it is for this operation; gives what only one of the lanes has to wait for."""
    only = _single_lane(pipe.wait, operation, lane)
    if only is None and not _is_at(pipe.wait, operation, lane):
        return []
    parity = _parity(pipe, now, distance)
    if only is not None:
        return [Single(only, _index(pipe, pipe.full, lane, now, distance), parity, pipe.full_fence)]
    _wait(pipe.full_by, pipe.full_at, barrier(pipes, pipe, pipe.full, lane, now, distance), parity)
    fence("after_wait", pipe.full_fence)
    return []


def _wait(engine: Engine | None, at: Place, pointer: Any, parity: Any) -> None:
    """Wait for a phase; what threads of the other CTA did before they signalled is known only by a wait of the pair's scope."""
    if engine == "threads" and at == "leader":
        pair.wait(pointer, parity)
    else:
        cute.arch.mbarrier_wait(pointer, parity)


def acquire(pipes: Pipes, pipe: Pipe, lane: Lane, now: Now) -> None:
    """Wait until a pipe's slot may be written."""
    if pipe.empty is not None:
        pointer = barrier(pipes, pipe, pipe.empty, lane, now)
        _wait(pipe.empty_by, pipe.empty_at, pointer, _parity(pipe, now, 0) ^ 1)
        fence("after_wait", pipe.empty_fence)


def _wait_empty(pipes: Pipes, pipe: Pipe, lane: Lane, now: Now) -> None:
    acquire(pipes, pipe, lane, now)
    if pipe.full_by == "tma":
        with cute.arch.elect_one():
            if pipe.full_at == "leader":
                pair.announce(barrier(pipes, pipe, pipe.full, lane, now), pipe.bytes)
            else:
                cute.arch.mbarrier_arrive_and_expect_tx(barrier(pipes, pipe, pipe.full, lane, now), pipe.bytes)


def pass_on(pipes: Pipes, operation: str, lane: Lane, now: Now) -> None:
    """What a TMA producer does that has nothing to bring: waits until the slot may be written, and hands it on as it is."""
    pipe = producing(pipes, operation, lane)
    acquire(pipes, pipe, lane, now)
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive(barrier(pipes, pipe, pipe.full, lane, now))


def await_commits(pipes: Pipes, operations: tuple[str, ...], end: Now) -> None:
    """Wait until all that the tensor core has read of what these operations wrote is given back.

    For the end of a role: a commit that nobody waits for would arrive in shared memory that the CTA has left.
    """
    for pipe in pipes.table:
        if pipe.produce in operations and pipe.empty is not None and pipe.empty_by == "tensor":
            for later in range(pipe.depth):
                now = Now(end.steps + later, end.tiles + later, end.full_tiles + later)
                pointer = barrier(pipes, pipe, pipe.empty, None, now)
                cute.arch.mbarrier_wait(pointer, _parity(pipe, now, 0) ^ 1)


def after(pipes: Pipes, operation: str, lane: Lane, now: Now, once: bool = False, behind: Any = None) -> None:
    """Signal all that `operation` completes: outputs that are full, inputs that it was the last to read.

    behind: an f32 that no warp may signal before it has.
    """
    of_lanes: list[Single] = []
    for pipe in pipes.table:
        if pipe.once != once:
            continue
        ends = [(pipe.produce, pipe.full, 0, (pipe.full_by, pipe.full_fence, pipe.full_at, pipes.lanes))]
        if pipe.empty is not None and pipe.empty_by is not None:
            how = (pipe.empty_by, pipe.empty_fence, pipe.empty_at, pipes.lanes)
            ends.append((pipe.release, pipe.empty, pipe.distance, how))
        for place, first, distance, how in ends:
            only = _single_lane(place, operation, lane)
            if only is not None:
                of_lanes.append(Single(only, _index(pipe, first, lane, now, distance), None, how))
            elif _is_at(place, operation, lane):
                _signal(*how, barrier(pipes, pipe, first, lane, now, distance), behind)
    signal_for_lanes(pipes.barriers, lane, of_lanes, _signal)


def _signal(engine: Engine, fence_kind: str, at: Place, lanes: int, pointer: Any, behind: Any = None) -> None:
    if engine == "tensor":
        with cute.arch.elect_one():
            if at == "each":
                pair.commit(pointer)
            else:
                tcgen05.commit(pointer)
    elif engine == "threads":
        fence("before_signal", fence_kind)
        if lanes > 1 and at == "own":
            cute.arch.mbarrier_arrive(pointer)
            return
        cute.arch.sync_warp()
        if behind is not None:
            _arrive_behind(pointer, behind)
            return
        with cute.arch.elect_one():
            if at == "leader":
                pair.arrive(pointer)
            else:
                cute.arch.mbarrier_arrive(pointer)


def _arrive_behind(pointer: Any, value: Any) -> None:
    """One lane's arrival, which no compiler can move before what makes the value: see `ODD_NAN`."""
    text = (
        "{ .reg .pred known, own; .reg .b32 lane; "
        f"setp.ne.b32 known, {{$r1}}, {ODD_NAN:#x}; elect.sync lane|own, 0xffffffff; "
        "and.pred own, own, known; @own mbarrier.arrive.shared.b64 _, [{$r0}]; }"
    )
    ptx(text, Int32(pointer.toint()), value)
