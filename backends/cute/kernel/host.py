"""Host side of a kernel: TMA descriptors and the launch grid."""

from collections.abc import Callable
from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.bundles import Box
from attnspec.backends.cute.kernel.cut import FEW
from attnspec.backends.cute.kernel.plan import Widths
from cutlass.cute.nvgpu import cpasync, tcgen05


def by_row(tensor: cute.Tensor) -> cute.Tensor:
    """(batch, length, heads, width) seen as (length, width, heads, batch); the memory stays as it is."""
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, mode=[1, 3, 2, 0]))


def box_shape(plan: Widths, rows: int | None) -> tuple[int, int]:
    """Rows and elements of one TMA box; a query tile's rows if not given."""
    return (plan.tile_q if rows is None else rows), plan.box_columns


def box_layout(plan: Widths, rows: int | None = None) -> Any:
    """Shared layout of one TMA box: rows of 64 elements, 128-byte swizzle."""
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, plan.element)
    return cute.tile_to_shape(atom, box_shape(plan, rows), order=(0, 1))


def load_atom(plan: Widths, tensor: cute.Tensor, rows: int | None = None, ctas: int | None = None) -> tuple[Any, Any]:
    """TMA descriptor that loads boxes of a (batch, length, heads, width) tensor, and its coordinate tensor.

    ctas: of the kernel that loads, where those are not the plan's.
    """
    # Of a pair, a load tells the leader's barrier.
    is_single = (plan.ctas if ctas is None else ctas) == 1
    op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE if is_single else tcgen05.CtaGroup.TWO)
    return cpasync.make_tiled_tma_atom(op, by_row(tensor), box_layout(plan, rows), box_shape(plan, rows))


def store_atom(plan: Widths, tensor: cute.Tensor, rows: int | None = None) -> tuple[Any, Any]:
    """TMA descriptor that stores boxes; rows beyond the length are dropped."""
    op = cpasync.CopyBulkTensorTileS2GOp()
    return cpasync.make_tiled_tma_atom(op, by_row(tensor), box_layout(plan, rows), box_shape(plan, rows))


def row_atoms(plan: Widths, tensor: cute.Tensor, atom: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any, Any, Any]:
    """Descriptors of q or out with their coordinates: in boxes of a query tile's rows, and in boxes of a few."""
    return *atom(plan, tensor), *atom(plan, tensor, FEW)


def box(
    plan: Widths,
    atom: Any,
    source: cute.Tensor,
    shared: Any,
    offset: int,
    count: int,
    rows: int | None = None,
    any_column: bool = False,
    step: int | None = None,
) -> Box:
    """The boxes of one buffer: `count` of them in shared memory from byte `offset`, and all of the global tensor.

    any_column: boxes are found by their first column too, not by the number of their column block. step: bytes from one to the
    next in shared memory, where that is more than those of a box.
    """
    layout, shape = box_layout(plan, rows), box_shape(plan, rows)
    first = cute.recast_ptr(shared + offset, dtype=plan.element)
    stride = shape[0] * shape[1] if step is None else step // 2
    outer = cute.append(layout.outer, cute.make_layout(count, stride=stride))
    boxes = cute.make_tensor(cute.recast_ptr(first, layout.inner), outer)
    parts = by_first_row(cute.local_tile(source, shape, (None, None, None, None)), source, any_column)
    to_shared, from_global = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(boxes, 0, 2), cute.group_modes(parts, 0, 2)
    )
    return Box(atom, from_global, to_shared)


def tensor_atom(plan: Widths, tensor: cute.Tensor) -> tuple[Any, Any]:
    """TMA descriptor that loads boxes of a variant's tensor [..., len_q, len_kv], and its coordinate tensor (query, key, ...)."""
    last = cute.rank(tensor) - 1
    view = cute.make_tensor(tensor.iterator, cute.select(tensor.layout, mode=[last - 1, last, *reversed(range(last - 1))]))
    op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    return cpasync.make_tiled_tma_atom(op, view, *tensor_box(plan, tensor.element_type))


def tensor_box(plan: Widths, element: Any) -> tuple[Any, tuple[int, int]]:
    """Layout and shape of such a box: 128 bytes of each row of a query tile, in a 128-byte swizzle."""
    shape = (plan.tile_q, 8 * plan.row_bytes // element.width)
    atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, element)
    return cute.tile_to_shape(atom, shape, order=(0, 1)), shape


def tensor_boxes(plan: Widths, atom: Any, source: cute.Tensor, shared: Any, number: int) -> Box:
    """The boxes of the plan's `number`-th tensor of which tiles are brought, by their first query and key."""
    tile = plan.tensor_tiles[number]
    layout, shape = tensor_box(plan, tile.element)
    first = cute.recast_ptr(shared + tile.offset, dtype=tile.element)
    count = (tile.size + (plan.lanes - 1) * tile.stride) // plan.box_bytes
    outer = cute.append(layout.outer, cute.make_layout(count, stride=shape[0] * shape[1]))
    boxes = cute.make_tensor(cute.recast_ptr(first, layout.inner), outer)
    parts = by_first_row(cute.local_tile(source, shape, (None,) * cute.rank(source)), source, True)
    to_shared, from_global = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(boxes, 0, 2), cute.group_modes(parts, 0, 2)
    )
    return Box(atom, from_global, to_shared)


def by_first_row(parts: cute.Tensor, source: cute.Tensor, any_column: bool) -> cute.Tensor:
    """Boxes by the row that they start at, any row, not by their number; if asked for, by the column too."""
    shape, stride = parts.shape, parts.stride
    count = 2 if any_column else 1
    ends = 2 + count
    layout = cute.make_layout(
        (*shape[:2], *source.shape[:count], *shape[ends:]), stride=(*stride[:2], *source.stride[:count], *stride[ends:])
    )
    return cute.make_tensor(parts.iterator, layout)
