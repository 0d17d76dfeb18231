"""How often each kind of instruction must stand in a kernel's text, counted from its schedule alone.

Operations of a role's first stage stand twice in the text (a tile's first step, and the loop), as do those of the last stage
(the loop, and the step after it). Softmax stands twice: for tiles with a mask and for tiles without.
"""

from attnspec.lowering.schedule.schedule import Channel, Schedule

TENSOR_STEP = 16  # elements of the summed dimension that a tensor instruction takes
BOX = 64  # elements of a row that a TMA box takes
CHUNK = 32  # columns that a load of S takes


def padded(length: int, unit: int) -> int:
    """Units that cover a length."""
    return -(-length // unit)


def tensor_instructions(schedule: Schedule) -> int:
    """tcgen05.mma."""
    split = schedule.choices.probability_split
    steps = {
        "mma_qk": padded(schedule.head_dim, TENSOR_STEP),
        "mma_pv_head": split // TENSOR_STEP,
        "mma_pv_tail": (schedule.dataflow.tile_kv - split) // TENSOR_STEP,
    }
    program = next(role.program for role in schedule.roles if role.kind == "mma")
    return sum(2 * steps[schedule.dataflow.operation(step.operation).kind] for step in program)


def loads(schedule: Schedule, packs: bool) -> int:
    """cp.async.bulk.tensor from global to shared memory: query tiles stand once, key and value tiles twice.

    packs: heads of a group may share a work tile, whose queries come in smaller boxes: once more.
    """
    width, width_v = padded(schedule.head_dim, BOX), padded(schedule.head_dim_v, BOX)
    return (2 if packs else 1) * schedule.dataflow.query_tiles * width + 2 * (width + width_v)


def stores(schedule: Schedule, packs: bool) -> int:
    """cp.async.bulk.tensor from shared to global memory; packs: see `loads`."""
    return (2 if packs else 1) * schedule.dataflow.query_tiles * padded(schedule.head_dim_v, BOX)


def barriers(schedule: Schedule) -> int:
    """mbarrier.init."""
    rings: dict[str, Channel] = {channel.ring: channel for channel in schedule.channels}
    return sum(channel.depth * (1 if channel.empty is None else 2) for channel in rings.values())


def commits(schedule: Schedule) -> int:
    """tcgen05.commit: a signal by the tensor pipe, twice where it is given every step, once where once a tile."""
    count = 0
    for channel in schedule.channels:
        times = 1 if channel.once_a_tile else 2
        count += times * (channel.full.engine == "tensor")
        count += times * (channel.empty is not None and channel.empty.engine == "tensor")
    return count


def exponentials(schedule: Schedule) -> int:
    """ex2 of a variant whose score has none of its own: a row of P but for the pairs that are emulated, and a rescale factor if
    there is a row maximum; then one of the kernel that puts parts of rows together."""
    keys, choices = schedule.dataflow.tile_kv, schedule.choices
    return 2 * (keys - 2 * int(keys // 2 * choices.emulated_share) + choices.needs_row_max) + 1


def score_loads(schedule: Schedule) -> int:
    """tcgen05.ld of 32 columns: a row of S, with and without a mask."""
    return 2 * schedule.dataflow.tile_kv // CHUNK
