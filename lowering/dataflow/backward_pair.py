"""What is different in the backward graph where two CTAs share a work tile: what each holds, what crosses, where dQ lies.

A product of both CTAs takes from each its own rows of A, and half of the columns of the product from B (PTX ISA, cta_group::2).
So Q comes twice, as does dO: half of the rows of a query tile for S^T = K Q^T, whose columns are queries, and half of the columns
of all rows for dK = dS^T Q. K comes a second time too, half of the columns of the keys of both, for dQ = dS K.
"""

from attnspec.lowering.dataflow.backward_shape import BackwardShape
from attnspec.lowering.dataflow.forward import ELEMENT_BYTES, SWIZZLE_ELEMENTS, padded
from attnspec.lowering.dataflow.graph import Buffer, Operation, Value

CTAS = 2
BY_ROWS = {"k": "mma_s", "v": "mma_dp", "q": "mma_s", "do": "mma_dp"}  # what is held by rows, and which product takes it
BY_COLUMNS = {"k_columns": "mma_dq", "q_columns": "mma_dk", "do_columns": "mma_dv"}


def by_columns() -> list[Operation]:
    """Loads of what is held by columns: keys once a work tile."""
    return [Operation(f"load_{name}", "tma", "tile" if name == "k_columns" else "step") for name in BY_COLUMNS]


def columns_buffers(shape: BackwardShape) -> tuple[Buffer, ...]:
    """A CTA's half of the columns, of the keys of both, and of a whole query tile."""
    widths = {"k_columns": shape.width, "q_columns": shape.width, "do_columns": shape.width_v}
    rows = {"k_columns": CTAS * shape.tile_kv}
    return tuple(
        Buffer(name, "shared", rows.get(name, shape.tile_q) * padded(width // CTAS, SWIZZLE_ELEMENTS) * ELEMENT_BYTES)
        for name, width in widths.items()
    )


def pair_streams() -> list[Value]:
    """What a CTA loads for the products of both."""
    return [Value(f"load_{name}", reader, name, name=name) for name, reader in (BY_ROWS | BY_COLUMNS).items()]


def exchanged(shape: BackwardShape) -> Value:
    """dS of a CTA's keys: half of the queries to its own shared memory, half to the other's."""
    share = shape.tile_q // CTAS * shape.tile_kv * ELEMENT_BYTES
    return Value("share_ds", "mma_dq", "ds_out", name="ds_out", part=(0, share), spreads=True)


def beside_probabilities(last: str) -> list[Value]:
    """dQ in the columns of S that P leaves free, a step late, so that its way through registers holds up no product.

    dQ of a step comes when the scores of the next step have been read, and before those of the step after that. last: the
    operation that reads the last of dQ.
    """
    return [
        Value("load_s", "mma_dq", None, distance=-1, name="scores_read"),
        Value(last, "mma_s", None, distance=2, name="drained"),
    ]
