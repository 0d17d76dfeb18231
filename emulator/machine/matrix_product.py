"""One product of tcgen05.mma: which rows and columns of which CTA are multiplied, and where the result lies. PTX ISA 9.7.16.10;
layouts A to G of FACTS C4; scale factors 9.7.16.10.7."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.machine.matrix import from_shared, from_tensor
from attnspec.emulator.machine.matrix_shape import Shape
from attnspec.emulator.machine.tasks import Task
from attnspec.emulator.numerics import formats
from attnspec.emulator.numerics.faithful import Form, whole

Array = Any


@dataclass(frozen=True)
class Product:
    """group: CTAs that take part; target, a, b: addresses and descriptors; adds: D is read, divided by 2^shift. disabled: words
    of lanes that are left alone; scales: addresses of the scale factors of A and B, `blocks` along K."""

    shape: Shape
    group: int
    target: int
    a: int
    b: int
    adds: bool
    tensor_a: bool
    stationary: bool = False
    shift: int = 0
    disabled: tuple[int, ...] = ()
    scales: tuple[int, ...] = ()
    blocks: int = 0


def run(task: Task, cta: Any, product: Product) -> None:
    """All of a product."""
    if product.group == 2:
        two_ctas(task, cta, product)
    elif product.stationary:
        weights_stay(task, cta, product)
    else:
        one_cta(task, cta, product)


def one_cta(task: Task, cta: Any, product: Product) -> None:
    """cta_group::1: M of 128 rows in lanes 0 to 127, or of 64 in 16 lanes of each quadrant (layouts D and F)."""
    shape = product.shape
    if shape.m not in (64, 128) or not 8 <= shape.n <= 256 or (product.blocks and shape.m != 128):
        raise KernelFault("matrix-descriptor", f"M {shape.m}, N {shape.n} with cta_group::1")
    rows = operand_a(task, cta, product, shape.m, lanes_of(shape.m, product.a) if product.tensor_a else None)
    columns = operand_b(task, cta, product, shape.n)
    accumulate(task, cta, product, rows, scaled_columns(task, cta, product, columns), lanes_of(shape.m, product.target))


def weights_stay(task: Task, cta: Any, product: Product) -> None:
    """.ws: M of 128, or of 64 or 32 with N in two or four parts one below the other (layouts D, E and G)."""
    shape = product.shape
    if shape.m not in (32, 64, 128) or shape.n not in (64, 128, 256):
        raise KernelFault("matrix-descriptor", f"M {shape.m}, N {shape.n} of tcgen05.mma.ws")
    rows = operand_a(task, cta, product, shape.m, slice(0, shape.m))
    columns = operand_b(task, cta, product, shape.n)
    parts = 128 // shape.m
    for part, some in enumerate(np.split(columns, parts)):
        accumulate(task, cta, product, rows, some, slice(part * shape.m, (part + 1) * shape.m))


def two_ctas(task: Task, leader: Any, product: Product) -> None:
    """cta_group::2: each CTA of the pair holds half of A's rows and half of B's columns (layouts A and B), and the scale factors
    of all columns."""
    shape = product.shape
    if shape.m not in (128, 256) or not 16 <= shape.n <= 256:
        raise KernelFault("matrix-descriptor", f"M {shape.m}, N {shape.n} with cta_group::2")
    pair = leader.cluster.ctas[leader.rank : leader.rank + 2]
    columns = np.concatenate([operand_b(task, cta, product, shape.n // 2) for cta in pair])
    for number, cta in enumerate(pair):
        some = scaled_columns(task, cta, product, columns)
        half = Half(product, number)
        if shape.m == 256:
            rows = operand_a(task, cta, product, 128, slice(0, 128))
            accumulate(task, cta, product, rows, some, slice(0, 128), half.disabled)
            continue
        # 64 rows each: lanes 0 to 63 hold the first half of the columns, lanes 64 to 127 the second.
        rows = operand_a(task, cta, product, 64, slice(0, 64))
        for part, piece in enumerate(np.split(some, 2)):
            accumulate(task, cta, product, rows, piece, slice(64 * part, 64 * part + 64), half.disabled)


@dataclass(frozen=True)
class Half:
    """What one CTA of a pair takes of a product."""

    product: Product
    number: int

    @property
    def disabled(self) -> tuple[int, ...]:
        """Its four words of disabled lanes."""
        return self.product.disabled[4 * self.number : 4 * self.number + 4]


def operand_a(task: Task, cta: Any, product: Product, rows: int, lanes: Any) -> Array:
    """A's rows of one CTA, times their scale factors if they have any. lanes: where they lie in tensor memory."""
    shape = product.shape
    if product.tensor_a:
        values = from_tensor(task, cta.tensor, product.a & 0xFFFF, lanes, shape.k, shape.a)
    else:
        values = from_shared(task, cta.shared, product.a, rows, shape.k, shape.a, shape.a_mn)
    if product.blocks:
        values = values * factors(task, cta, product, product.scales[0], rows, shape.a_scale)
    return -values if shape.negate_a else values


def operand_b(task: Task, cta: Any, product: Product, count: int) -> Array:
    """B's columns of one CTA."""
    shape = product.shape
    values = from_shared(task, cta.shared, product.b, count, shape.k, shape.b, shape.b_mn)
    return -values if shape.negate_b else values


def scaled_columns(task: Task, cta: Any, product: Product, columns: Array) -> Array:
    """B's columns times their scale factors, if they have any."""
    if not product.blocks:
        return columns
    return columns * factors(task, cta, product, product.scales[1], len(columns), product.shape.b_scale)


def factors(task: Task, cta: Any, product: Product, address: int, rows: int, first: int) -> Array:
    """Scale factors of each element (rows, K) in f64. Row r has its own in lane r % 32 of column r / 32, repeated in each
    quadrant, a byte a block of K from byte `first` on."""
    if first % product.blocks:
        raise KernelFault("matrix-descriptor", f"scale factors of {product.blocks} blocks start at byte {first}")
    column, count = address & 0xFFFF, -(-rows // 32)
    words = cta.tensor.read(task, slice(column, column + count), slice(0, 128)).reshape(count, 4, 32)
    if (words != words[:, :1]).any():
        raise KernelFault(
            "tensor-quadrant", f"scale factors in columns {column} to {column + count - 1} differ between quadrants"
        )
    bytes = (
        np.ascontiguousarray(words[:, 0].reshape(-1)[:rows]).view(np.uint8).reshape(rows, 4)[:, first : first + product.blocks]
    )
    if product.shape.scale == "ue8m0":
        values = np.where(bytes == 255, np.nan, np.ldexp(1.0, bytes.astype(np.int64) - 127))
    else:
        values = formats.decode(bytes & 0x7F, "e4m3").astype(np.float64)
    return np.repeat(values, product.shape.k // product.blocks, axis=1)


def lanes_of(rows: int, address: int) -> Any:
    """Lanes of the rows of a tile in tensor memory."""
    first = address >> 16
    if rows == 128:
        if first:
            raise KernelFault("tensor-quadrant", f"a tile of 128 rows starts at lane {first}")
        return slice(0, 128)
    row = np.arange(rows)
    return 32 * (row // 16) + row % 16 + first


def accumulate(
    task: Task, cta: Any, product: Product, a: Array, b: Array, lanes: Any, disabled: tuple[int, ...] | None = None
) -> None:
    """D = A B' + D in one CTA's tensor memory. a: (rows, k); b: (n, k)."""
    column = product.target & 0xFFFF
    columns: Any = slice(column, column + len(b))
    if any(words := product.disabled if disabled is None else disabled):
        every = np.arange(128)
        enabled = np.array(words, np.uint64)[every // 32] >> (every % 32).astype(np.uint64) & np.uint64(1) == 0
        kept = enabled[lanes]
        a, lanes = a[kept], every[lanes][kept]
        if not len(a):
            return
    if not isinstance(lanes, slice):
        columns = np.arange(column, column + len(b))[:, None]
    old = cta.tensor.read(task, columns, lanes) if product.adds else None
    cta.tensor.write(task, columns, lanes, sums(cta, product, a, b, old))


def sums(cta: Any, product: Product, a: Array, b: Array, old: Array | None) -> Array:
    """The words of D (n, rows)."""
    shape = product.shape
    if shape.result == "s32":
        return whole(a, b, None if old is None else old.view(np.int32), shape.saturates).view(np.uint32)
    held = None
    if old is not None and shape.result == "f16":
        held = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
    elif old is not None:
        held = old.view(np.float32)
    if held is not None and product.shift:
        held = held * np.float32(2.0**-product.shift)
    if product.blocks:
        # Products of scaled values in f64, the sum rounded once: no silicon has told what the tensor core keeps of them.
        total = np.dot(b, a.T)
        return (total if held is None else total + held).astype(np.float32).view(np.uint32)
    result = cta.machine.multiply(a, b, held, Form(shape.a, shape.b, shape.result))
    if shape.result == "f16":
        return result.astype(np.float16).view(np.uint16).astype(np.uint32)
    return result.view(np.uint32)
