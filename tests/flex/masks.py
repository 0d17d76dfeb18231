"""Masks that people write for FlexAttention, in the forms in which they write them: a name to a way to make the function.

The rules are those of the FlexAttention documentation and blog, of its tutorial and of the collection attention-gym.
"""

import math
from functools import partial

import torch
from torch.nn.attention.flex_attention import and_masks, noop_mask, or_masks

LENGTH = 24  # of the calls that the tests make
WINDOW = 5  # captured as a global


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def sliding_window(b, h, q_idx, kv_idx):
    behind = q_idx - kv_idx
    return (behind >= 0) & (behind <= WINDOW)


def make_window(size):
    def near(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= size

    return near


def make_prefix(length):
    return or_masks(lambda b, h, q_idx, kv_idx: kv_idx < length, causal)


def make_prefix_of_batch():
    lengths = torch.tensor([3, 9])

    def prefix(b, h, q_idx, kv_idx):
        return (kv_idx < lengths[b]) | (kv_idx <= q_idx)

    return prefix


def make_documents():
    ids = torch.tensor([0] * 7 + [1] * 5 + [2] * 12)
    return and_masks(causal, lambda b, h, q_idx, kv_idx: ids[q_idx] == ids[kv_idx])


def make_documents_of_batch():
    ids = torch.stack([torch.arange(LENGTH) // 7, torch.arange(LENGTH) // 10]).int()

    def same(b, h, q_idx, kv_idx):
        return ids[b, q_idx] == ids[b][kv_idx]

    return same


def document_ids(starts):
    return torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())


def make_jagged():
    """A mask in positions that start anew in each document."""
    starts = torch.tensor([0, 6, 7, 16, LENGTH])
    document = document_ids(starts)

    def inside(b, h, q_idx, kv_idx):
        q_place = q_idx - starts[document[q_idx]]
        kv_place = kv_idx - starts[document[kv_idx]]
        return (document[q_idx] == document[kv_idx]) & make_window(3)(b, h, q_place, kv_place) & causal(b, h, q_place, kv_place)

    return inside


def make_packed_causal():
    starts = torch.tensor([0, 6, 7, 16, LENGTH])
    document = document_ids(starts)

    def rows_as_intervals(b, h, q_idx, kv_idx):
        first = starts[document[q_idx]]
        return (kv_idx >= first) & (kv_idx <= q_idx)

    return rows_as_intervals


def make_shared_prefix():
    starts = torch.tensor([0, 6, 12, 18, LENGTH])
    prefix_of = torch.tensor([0, 0, 0, 3])
    document = document_ids(starts)

    def shared(b, h, q_idx, kv_idx):
        own = document[q_idx]
        prefix = prefix_of[own]
        in_prefix = (own != prefix) & (kv_idx >= starts[prefix]) & (kv_idx < starts[prefix + 1])
        return ((kv_idx >= starts[own]) & (q_idx >= kv_idx)) | in_prefix

    return shared


def make_key_padding():
    lengths = torch.tensor([17, 24], dtype=torch.int32)
    return lambda b, h, q_idx, kv_idx: kv_idx < lengths[b]


def make_batched(inner, size):
    def batched(b, h, q_idx, kv_idx):
        same = q_idx // size == kv_idx // size
        return same & inner(b, h, q_idx % size, kv_idx % size)

    return batched


def make_dilated(reach, step):
    def dilated(b, h, q_idx, kv_idx):
        away = torch.abs(q_idx - kv_idx)
        return (away <= reach) & (away % step == 0)

    return dilated


def make_global_tokens():
    is_global = torch.zeros(LENGTH, dtype=torch.bool)
    is_global[::9] = True
    return or_masks(make_window(2), lambda b, h, q_idx, kv_idx: is_global[q_idx] | is_global[kv_idx])


def make_block_diffusion(length, block):
    def rule(b, h, q_idx, kv_idx):
        q_noised, kv_noised = q_idx < length, kv_idx < length
        q_block, kv_block = (q_idx % length) // block, (kv_idx % length) // block
        diagonal = (q_block == kv_block) & (q_noised == kv_noised)
        to_the_past = (q_block > kv_block) & q_noised & ~kv_noised
        clean = (q_block >= kv_block) & ~q_noised & ~kv_noised
        return diagonal | to_the_past | clean

    return rule


def make_natten(width, height, reach):
    def pixel(index):
        return index // width, index % width

    def neighbours(b, h, q_idx, kv_idx):
        q_row, q_column = pixel(q_idx)
        kv_row, kv_column = pixel(kv_idx)
        row = q_row.clamp(reach, height - 1 - reach)
        column = q_column.clamp(reach, width - 1 - reach)
        return ((row - kv_row).abs() <= reach) & ((column - kv_column).abs() <= reach)

    return neighbours


def make_natten_3d(frames, height, width, reach):
    def voxel(index):
        return index // (height * width), index // width % height, index % width

    def neighbours(b, h, q_idx, kv_idx):
        visible = q_idx >= 0
        for size, q_at, kv_at in zip((frames, height, width), voxel(q_idx), voxel(kv_idx), strict=True):
            visible = visible & ((torch.clamp(q_at, reach, size - 1 - reach) - kv_at).abs() <= reach)
        return visible

    return neighbours


def make_stand_alone(width, reach):
    """Stand-alone self-attention: a square around the pixel, cut off at the border."""

    def square(b, h, q_idx, kv_idx):
        rows = torch.abs(q_idx // width - kv_idx // width) <= reach
        return rows & (torch.abs(q_idx % width - kv_idx % width) <= reach)

    return square


def make_tiled_natten(width, height, reach, tile):
    def pixel(index):
        which, inside = index // (tile * tile), index % (tile * tile)
        across = width // tile
        return which % across * tile + inside % tile, which // across * tile + inside // tile

    def neighbours(b, h, q_idx, kv_idx):
        (q_x, q_y), (kv_x, kv_y) = pixel(q_idx), pixel(kv_idx)
        near = (q_x.clamp(reach, width - 1 - reach) - kv_x).abs() <= reach
        return near & ((q_y.clamp(reach, height - 1 - reach) - kv_y).abs() <= reach)

    return neighbours


def make_morton(side, reach):
    """Pixels in the order of the Z curve."""

    def even_bits(code):
        code = code & 0x5555
        for shift, kept in ((1, 0x3333), (2, 0x0F0F), (4, 0x00FF)):
            code = (code | code >> shift) & kept
        return code

    def neighbours(b, h, q_idx, kv_idx):
        visible = True
        for q_code, kv_code in ((q_idx, kv_idx), (q_idx >> 1, kv_idx >> 1)):
            middle = even_bits(q_code).clamp(reach, side - 1 - reach)
            visible = ((middle - even_bits(kv_code)).abs() <= reach) & visible
        return visible

    return neighbours


def make_sliding_tiles(rows, columns, tile, reach, text):
    """Sliding tile attention: whole tiles near the query's, and text that all see."""
    pixels = rows * columns

    def tile_of(index):
        which = index // (tile * tile)
        return which // (columns // tile), which % (columns // tile)

    def rule(b, h, q_idx, kv_idx):
        (q_row, q_column), (kv_row, kv_column) = tile_of(q_idx), tile_of(kv_idx)
        row = q_row.clamp(reach, rows // tile - 1 - reach)
        near = (torch.abs(row - kv_row) <= reach) & (torch.abs(q_column - kv_column) <= reach)
        image = near & (q_idx < pixels) & (kv_idx < pixels)
        return image | (q_idx >= pixels) | ((kv_idx >= pixels) & (kv_idx < pixels + text))

    return rule


def make_spatial_heads(prompt, frame, width, rounded):
    def up(number):
        return math.floor(number / rounded) * rounded

    def spatial(b, h, q_idx, kv_idx):
        return (kv_idx < prompt) | (q_idx < prompt) | (torch.abs(q_idx - kv_idx) < up(width * frame))

    return spatial


def make_temporal_heads(prompt, frame, width):
    def temporal(b, h, q_idx, kv_idx):
        q_place, kv_place = (q_idx - prompt) % frame, (kv_idx - prompt) % frame
        return (kv_idx < prompt) | (q_idx < prompt) | (torch.abs(q_place - kv_place) < width)

    return temporal


def make_tree(prefix):
    """Speculative decoding: a shared prefix, then the nodes of a tree that see their ancestors."""
    parents = [0, 0, 0, 1, 1, 2, 3, 3]
    ancestors = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents[1:], 1):
        ancestors[node] |= ancestors[parent]
    nodes = len(parents)

    def tree(b, h, q_idx, kv_idx):
        node = (kv_idx - prefix).clamp(min=0, max=nodes - 1)
        return (kv_idx < prefix) | ((kv_idx >= prefix) & (kv_idx < prefix + nodes) & ancestors[q_idx % nodes, node])

    return tree


def make_block_drafts(prefix, block):
    def drafts(b, h, q_idx, kv_idx):
        place = kv_idx - prefix
        same = (q_idx // block == place // block) & (place % block <= q_idx % block)
        return (kv_idx < prefix) | ((kv_idx >= prefix) & same)

    return drafts


def make_flamingo(tokens):
    """Text sees the tokens of the image before it."""
    intervals = torch.tensor([[0, 7], [7, 15], [15, LENGTH]])
    image_of = torch.repeat_interleave(torch.arange(3), tokens)

    def cross(b, h, q_idx, kv_idx):
        interval = intervals[image_of[kv_idx]]
        return (q_idx >= interval[0]) & (q_idx < interval[1])

    return cross


def make_transfusion():
    """Causal text with images in it that see themselves whole."""
    spans = torch.tensor([[[2, 7], [12, 16]], [[0, 4], [20, 24]]])

    def mixed(b, h, q_idx, kv_idx):
        visible = q_idx >= kv_idx
        for image in range(spans.shape[1]):
            first, last = spans[b, image]
            visible = visible | ((q_idx >= first) & (q_idx < last) & (kv_idx >= first) & (kv_idx < last))
        return visible

    return mixed


def make_chosen_tiles(tile):
    """A list of key tiles for each query tile (video sparse attention)."""
    chosen = torch.stack([torch.randperm(LENGTH // tile, generator=torch.Generator().manual_seed(i))[:2] for i in range(24)])
    chosen = chosen.view(2, 4, 3, 2)
    sizes = torch.tensor([tile, tile - 3, tile])

    def rule(b, h, q_idx, kv_idx):
        is_chosen = (chosen[b, h, q_idx // tile] == (kv_idx // tile).unsqueeze(-1)).any(dim=-1)
        return is_chosen & (kv_idx % tile < sizes[kv_idx // tile])

    return rule


def make_block_map(tile):
    visible = torch.rand(2, 4, LENGTH // tile, LENGTH // tile, generator=torch.Generator().manual_seed(3)) < 0.6
    return lambda b, h, q_idx, kv_idx: visible[b, h, q_idx // tile, kv_idx // tile]


def make_paged(inner, size):
    """Keys in pages of a pool: a page's number to the place in the sequence that it holds, -1 for none."""
    logical = torch.tensor([[2, -1, 0, 1], [1, 3, -1, 0]])

    def paged(b, h, q_idx, physical_idx):
        page = logical[b, physical_idx // size]
        kv_idx = page * size + physical_idx % size
        return torch.where(page >= 0, inner(b, h, q_idx, kv_idx), False)

    return paged


def make_offset(offset):
    """Decoding: the first query stands behind keys of the cache."""
    places = torch.tensor(offset)

    def later(b, h, q_idx, kv_idx):
        return causal(b, h, q_idx + places, kv_idx)

    return later


def make_streaming(sinks, size):
    return or_masks(
        lambda b, h, q_idx, kv_idx: (kv_idx < sinks) & (kv_idx <= q_idx),
        lambda b, h, q_idx, kv_idx: (q_idx >= kv_idx) & (q_idx - kv_idx < size),
    )


def window_of_heads(b, h, q_idx, kv_idx, widths):
    return (q_idx - kv_idx >= 0) & (q_idx - kv_idx < widths[h])


MASKS = {
    "causal": lambda: causal,
    "noop": lambda: noop_mask,
    "sliding window": lambda: sliding_window,
    "prefix": lambda: make_prefix(6),
    "prefix of each sequence": make_prefix_of_batch,
    "documents": make_documents,
    "documents of each sequence": make_documents_of_batch,
    "jagged": make_jagged,
    "packed causal": make_packed_causal,
    "shared prefix": make_shared_prefix,
    "key padding": make_key_padding,
    "batched causal": lambda: make_batched(causal, 7),
    "batched noop": lambda: make_batched(noop_mask, 5),
    "dilated": lambda: make_dilated(9, 3),
    "window and global tokens": make_global_tokens,
    "block diffusion": lambda: make_block_diffusion(12, 4),
    "natten": lambda: make_natten(6, 4, 1),
    "natten 3-D": lambda: make_natten_3d(3, 3, 3, 1),
    "stand-alone": lambda: make_stand_alone(6, 1),
    "tiled natten": lambda: make_tiled_natten(6, 4, 1, 2),
    "morton natten": lambda: make_morton(4, 1),
    "sliding tiles": lambda: make_sliding_tiles(4, 4, 2, 0, 5),
    "spatial heads": lambda: make_spatial_heads(3, 7, 2, 4),
    "temporal heads": lambda: make_temporal_heads(3, 7, 2),
    "tree": lambda: make_tree(16),
    "block drafts": lambda: make_block_drafts(4, 5),
    "flamingo": lambda: make_flamingo(8),
    "transfusion": make_transfusion,
    "chosen tiles": lambda: make_chosen_tiles(8),
    "block map": lambda: make_block_map(8),
    "paged": lambda: make_paged(causal, 6),
    "offset": lambda: make_offset(3),
    "streaming": lambda: make_streaming(2, 4),
    "a window for each head": lambda: partial(window_of_heads, widths=torch.tensor([1, 3, 8, 24])),
}
