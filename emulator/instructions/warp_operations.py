"""Operations among the lanes of a warp. PTX ISA 9.7.9.6 (shfl), 9.7.13.9 (vote), 9.7.13.11 (redux), 9.7.13.16 (elect)."""

from functools import partial
from typing import Any

import numpy as np
from attnspec.emulator.instructions.control import bits_of, require_convergent
from attnspec.emulator.instructions.rule import LANES, Act, Rule, first_active, only, unsupported
from attnspec.emulator.ptx.operands import Instruction, Sink, Two

LANE = np.arange(LANES)


def elect(instruction: Instruction) -> Rule:
    """elect.sync d|p, members: the lowest member leads (the ISA only says that it is always the same one)."""
    target, members = instruction.operands
    if not isinstance(target, Two):
        raise unsupported(instruction, "wanted d|p")
    return Act(elect_lane, ((members, "u32"),), ((target.first, "u32"), (target.second, "pred")))


def elect_lane(warp: Any, mask: Any, members: Any) -> tuple[Any, Any]:
    """(leader, whether the lane leads)"""
    wanted = int(members[first_active(mask)])
    require_convergent(warp, mask, wanted, "elect.sync")
    lanes = warp.lanes if mask is None else mask
    leader = next(int(lane) for lane in np.flatnonzero(lanes) if wanted >> int(lane) & 1)
    return np.full(LANES, leader, np.uint32), leader == LANE


def shuffle(instruction: Instruction) -> Rule:
    """shfl.sync.MODE.b32 d[|p], a, b, c, members"""
    target, a, b, c, members = instruction.operands
    both = (target.first, target.second) if isinstance(target, Two) else (target, Sink())
    mode = next(word for word in instruction.parts if word in ("up", "down", "bfly", "idx"))
    reads = ((a, "u32"), (b, "u32"), (c, "u32"), (members, "u32"))
    return Act(partial(shuffle_lanes, mode=mode), reads, ((both[0], "u32"), (both[1], "pred")))


def shuffle_lanes(warp: Any, mask: Any, a: Any, b: Any, c: Any, members: Any, mode: str) -> tuple[Any, Any]:
    """(value of the source lane, whether that lane is in range)"""
    require_convergent(warp, mask, int(members[first_active(mask)]), "shfl.sync")
    amount = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = (c >> np.uint32(8) & np.uint32(31)).astype(np.int64)
    most = LANE & segment | clamp & ~segment
    least = LANE & segment
    if mode == "up":
        source = LANE - amount
        valid = source >= most
    else:
        source = {"down": LANE + amount, "bfly": LANE ^ amount, "idx": least | amount & ~segment}[mode]
        valid = source <= most
    result = a[np.where(valid, source, LANE)]
    # What an inactive lane would give is undefined (PTX ISA); an H200 gives 0.
    return result if mask is None else np.where(~valid | mask[np.where(valid, source, LANE)], result, 0).astype(np.uint32), valid


def vote(instruction: Instruction) -> Rule:
    """vote.sync.all, .any, .uni to a predicate, .ballot to b32"""
    target, value, members = instruction.operands
    mode = next(word for word in instruction.parts if word in ("all", "any", "uni", "ballot"))
    written = "u32" if mode == "ballot" else "pred"
    return Act(partial(vote_lanes, mode=mode), ((value, "pred"), (members, "u32")), ((target, written),))


def vote_lanes(warp: Any, mask: Any, value: Any, members: Any, mode: str) -> Any:
    """The vote of the members."""
    wanted = int(members[first_active(mask)])
    require_convergent(warp, mask, wanted, "vote.sync")
    voters = (warp.lanes if mask is None else mask) & (wanted >> LANE & 1 == 1)
    votes = value[voters]
    if mode == "ballot":
        return np.full(LANES, bits_of(value & voters), np.uint32)
    result = {"all": votes.all(), "any": votes.any(), "uni": votes.all() or not votes.any()}[mode]
    return np.full(LANES, result)


def reduce(instruction: Instruction) -> Rule:
    """redux.sync.OP.TYPE d, a, members"""
    target, value, members = instruction.operands
    words = instruction.parts
    operation, kind = words[2], words[-1]
    kind = {"b32": "u32"}.get(kind, kind)
    modifiers = ("abs", "NaN") if kind == "f32" and operation in ("min", "max") else ()
    only(instruction, "sync", operation, words[-1], *modifiers)
    if operation not in REDUCTIONS:
        raise unsupported(instruction, "this reduction")
    name = f"{operation}.NaN" if "NaN" in words else operation
    return Act(
        partial(reduce_lanes, operation=name, magnitude="abs" in words), ((value, kind), (members, "u32")), ((target, kind),)
    )


REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "min.NaN": np.minimum, "max.NaN": np.maximum,
}  # fmt: skip


def reduce_lanes(warp: Any, mask: Any, value: Any, members: Any, operation: str, magnitude: bool) -> Any:
    """The reduction of the members, or of their magnitudes."""
    wanted = int(members[first_active(mask)])
    require_convergent(warp, mask, wanted, "redux.sync")
    lanes = (warp.lanes if mask is None else mask) & (wanted >> LANE & 1 == 1)
    given = np.abs(value[lanes]) if magnitude else value[lanes]
    return np.full(LANES, REDUCTIONS[operation].reduce(given, dtype=value.dtype), value.dtype)


def match(instruction: Instruction) -> Rule:
    """match.any.sync d, a, members; match.all.sync d|p, a, members"""
    target, value, members = instruction.operands
    mode, kind = instruction.parts[1], {"b32": "u32", "b64": "u64"}[instruction.parts[-1]]
    only(instruction, "any", "all", "sync", instruction.parts[-1])
    both = (target.first, target.second) if isinstance(target, Two) else (target, Sink())
    reads = ((value, kind), (members, "u32"))
    return Act(partial(match_lanes, mode=mode), reads, ((both[0], "u32"), (both[1], "pred")))


def match_lanes(warp: Any, mask: Any, value: Any, members: Any, mode: str) -> tuple[Any, Any]:
    """(lanes with the same value, whether all have it); with .all no lane if they differ."""
    wanted = int(members[first_active(mask)])
    require_convergent(warp, mask, wanted, "match.sync")
    lanes = (warp.lanes if mask is None else mask) & (wanted >> LANE & 1 == 1)
    same = (value[:, None] == value[None]) & lanes
    if mode == "all":
        found = bool(same[lanes][:, lanes].all())
        return np.full(LANES, bits_of(lanes) if found else 0, np.uint32), np.full(LANES, found)
    return np.packbits(same, axis=1, bitorder="little").view(np.uint32)[:, 0], np.zeros(LANES, np.bool_)


TABLE = {"match": match, "elect.sync": elect, "shfl.sync": shuffle, "vote.sync": vote, "redux.sync": reduce}
