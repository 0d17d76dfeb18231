"""How the sequences of a call, and the variant's own tensors, reach a kernel."""

from dataclasses import dataclass

from attnspec.backends.cute.emit.dialect import attribute_names

from attnspec.language.spec import Spec


@dataclass(frozen=True)
class Sequences:
    """How the host function takes the sequences of a call. parameters: after the tensors; batch, lengths, facts: from those.

    view: of a tensor, for TMA. module: of the kernel library. rows: of a sequence, on average.
    """

    module: str
    parameters: str
    about: tuple[str, ...]
    batch: str
    lengths: str
    facts: str
    view: str
    rows: str


DENSE = Sequences(
    module="dense",
    parameters="q_first: Int32, kv_first: Int32, len_q: Int32, len_kv: Int32",
    about=(
        "q, out: (batch, rows, heads, width); k, v: (batch, keys, kv_heads, width); lse: (batch, heads, rows), f32.",
        "q_first, kv_first: global positions of the first row and key; len_q, len_kv: whole lengths.",
    ),
    batch="q.shape[0]",
    lengths="len_q, len_kv",
    facts="q_first, kv_first",
    view="{}",
    rows="q.shape[1]",
)
PACKED = Sequences(
    module="packed",
    parameters="starts_q: cute.Tensor, starts_kv: cute.Tensor",
    about=(
        "q, out: (1, total rows, heads, width); k, v: (1, total keys, kv_heads, width); lse: (1, heads, total rows), f32.",
        "starts_q, starts_kv: batch + 1 starts of sequences, i32.",
    ),
    batch="starts_q.shape[0] - 1",
    lengths="q.shape[1], k.shape[1]",
    facts="starts_q, starts_kv",
    view="packed.view({})",
    rows="q.shape[1] // cutlass.max(starts_q.shape[0] - 1, 1)",
)


def sequences_of(spec: Spec) -> Sequences:
    """How a variant's calls give their sequences."""
    return PACKED if spec.is_varlen else DENSE


def tensor_names(spec: Spec) -> list[str]:
    return list(attribute_names(spec).values())
