"""How often each kind of instruction must stand in a kernel's text, counted from its schedule alone.

Operations of a role's first stage stand twice in the text (a tile's first step, and the loop), as do those of the last stage
(the loop, and the step after it); where the role rolls, these stand in the next tile's first step too. Softmax stands twice: for
tiles with a mask and for tiles without.
"""

from attnspec.lowering.schedule.schedule import Channel, Role, Schedule

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
    names = [step.operation for step in _tensor_role(schedule).program]
    return sum(places(schedule, name) * steps[schedule.dataflow.operation(name).kind] for name in names)


def _tensor_role(schedule: Schedule) -> Role:
    return next(role for role in schedule.roles if role.kind == "mma")


def places(schedule: Schedule, name: str) -> int:
    """How often a tensor operation stands in the text."""
    role = _tensor_role(schedule)
    lags = any(step.stage and step.operation == name for step in role.program)
    return 3 if role.rolls and lags else 2


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
    """tcgen05.commit: a signal by the tensor pipe, as often as its operation stands there if it is given every step.

    Once, if once a tile; twice where the role rolls: a tile's last scores are the loop's or its first, its last products come
    with the next tile or with none.
    """
    once = 2 if _tensor_role(schedule).rolls else 1
    count = 0
    for channel in schedule.channels:
        for arrivals, name in ((channel.full, channel.producer), (channel.empty, channel.consumers[-1])):
            if arrivals is not None and arrivals.engine == "tensor":
                count += once if channel.once_a_tile else places(schedule, name)
    return count


def exponentials(schedule: Schedule) -> int:
    """ex2 of a variant whose score has none of its own: a row of P but for the pairs that are emulated, and a rescale factor if
    there is a row maximum; then one of the kernel that puts parts of rows together."""
    keys, choices = schedule.dataflow.tile_kv, schedule.choices
    return 2 * (keys - 2 * int(keys // 2 * choices.emulated_share) + choices.needs_row_max) + 1


def score_loads(schedule: Schedule) -> int:
    """tcgen05.ld of 32 columns: a row of S, with and without a mask."""
    return 2 * schedule.dataflow.tile_kv // CHUNK
