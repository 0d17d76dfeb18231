"""How a call is cut into work tiles, by the rules that its kernel follows: for `attnc explain`, and for who launches it."""

FEWEST_ROWS = 8  # of a head in a work tile
PAYS = (7, 8)  # tiles left of tiles before, at most, for heads to be packed
LEAST_STEPS = 4  # key tiles of a part: fewer are not worth the second kernel


def blocks(value: int, size: int) -> int:
    """Blocks of a size that hold `value` elements."""
    return -(-value // size)


def choose_rows(rows: int, group: int, whole: int) -> int:
    """Rows of a head in a work tile of `whole` rows: all of them, unless heads of a group beside each other need fewer tiles."""
    chosen, least, now = whole, blocks(rows, whole) * group, whole // 2
    while now >= FEWEST_ROWS:
        tiles = blocks(rows, now) * blocks(group, whole // now)
        if tiles * PAYS[1] <= least * PAYS[0]:
            chosen, least = now, tiles
        now //= 2
    return chosen


def count_tiles(batch: int, kv_heads: int, group: int, rows: int, rows_of_head: int, whole: int) -> int:
    """Work tiles of a call."""
    return batch * kv_heads * blocks(rows, rows_of_head) * blocks(group, whole // rows_of_head)


def choose_parts(tiles: int, steps: int, processors: int) -> int:
    """Work tiles that share out the key tiles of the same rows: as many as keep all multiprocessors at work.

    tiles: work tiles of all keys. steps: key tiles of the longest; a part has LEAST_STEPS of them at least.
    """
    idle = processors // max(1, tiles)
    return max(1, min(idle, blocks(steps, LEAST_STEPS)))
