"""Score functions that people write: a name to (function, mask function or None, captured tensors with gradients)."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from tests.flex.masks import LENGTH, causal

HEADS = 4


def parameter(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).mul(0.5).requires_grad_()


def noop(score, b, h, q_idx, kv_idx):
    return score


def checkerboard(score, b, h, q_idx, kv_idx):
    score = torch.where(torch.abs(kv_idx - q_idx) % 2 == 1, score * 0.5, score)
    score = torch.where(torch.abs(kv_idx - q_idx) % 2 == 0, score * 2.0, score)
    return score


def causal_by_score(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx >= kv_idx, score, -float("inf"))


def relative_position(score, b, h, q_idx, kv_idx):
    return score + (q_idx - kv_idx)


def make_alibi(heads):
    def alibi(score, b, h, q_idx, kv_idx):
        slope = torch.exp2(-((h + 1) * 8.0 / heads))
        return score + (kv_idx - q_idx) * slope

    return alibi


def make_alibi_of_table():
    slopes = parameter(HEADS)
    return lambda score, b, h, q_idx, kv_idx: score - slopes[h] * (q_idx - kv_idx), causal, [slopes]


def make_softcap(cap):
    def softcap(score, b, h, q_idx, kv_idx):
        return cap * torch.tanh(score / cap)

    return softcap


def make_relative_table():
    table = parameter(2 * LENGTH - 1)

    def relative(score, b, h, q_idx, kv_idx):
        return score + table[q_idx - kv_idx + LENGTH - 1]

    return relative, None, [table]


def make_clipped_relative(reach=4):
    table = parameter(HEADS, 2 * reach + 1)

    def relative(score, b, h, q_idx, kv_idx):
        step = torch.clamp(q_idx - kv_idx, min=-reach, max=reach) + reach
        return score + table[h, step]

    return relative, None, [table]


def make_pair_bias():
    bias = parameter(HEADS, LENGTH, LENGTH)
    return lambda score, b, h, q_idx, kv_idx: score + bias[h, q_idx, kv_idx], None, [bias]


def make_pair_bias_of_batch():
    bias = parameter(2, HEADS, LENGTH, LENGTH).to(torch.bfloat16).detach().requires_grad_()
    return lambda score, b, h, q_idx, kv_idx: score + bias[b, h, q_idx, kv_idx], None, [bias]


def make_key_bias():
    bias = parameter(2, LENGTH)

    def key_bias(score, b, h, q_idx, kv_idx):
        return score + bias[b, kv_idx]

    return key_bias, causal, [bias]


def make_temperature():
    temperature = parameter(HEADS)

    def tempered(score, b, h, q_idx, kv_idx):
        return score * F.softplus(temperature[h]) + 0.1 * torch.sigmoid(score)

    return tempered, causal, [temperature]


def make_blend():
    share = parameter(HEADS)
    return lambda score, b, h, q_idx, kv_idx: torch.lerp(score, 0.5 * torch.tanh(score), share[h]), causal, [share]


def make_one_number():
    gain = torch.tensor(1.3, requires_grad=True)
    shift = torch.tensor(2)
    return lambda score, b, h, q_idx, kv_idx: torch.where(kv_idx > shift, score * gain, score), None, [gain]


def make_sandwich(width=16):
    """Inner products of sinusoids, as a table of distances, and a ratio for each head."""
    away = torch.arange(2 * LENGTH, dtype=torch.float32) - (LENGTH - 1)
    waves = 10000 ** (-2 * torch.arange(width // 2) / width)
    table = torch.cos(away.abs()[:, None] * waves).sum(-1)
    ratio = HEADS / (8.0 * torch.arange(1, HEADS + 1))
    offset = LENGTH - 1

    def sandwich(score, b, h, q_idx, kv_idx):
        return score + table[q_idx - kv_idx + offset] * ratio[h]

    return sandwich, causal, []


def make_graphormer():
    """A learned bias for the distance of two nodes of a graph."""
    table = parameter(HEADS, 6)
    distances = torch.randint(0, 6, (2, LENGTH, LENGTH), generator=torch.Generator().manual_seed(5))
    return lambda score, b, h, q_idx, kv_idx: score + table[h, distances[b, q_idx, kv_idx]], None, [table]


def make_graphormer_edges(hops=3):
    """The mean of learned weights of the edges on a path."""
    weights = parameter(HEADS, hops, 5)
    source = torch.Generator().manual_seed(6)
    edges = torch.randint(0, 5, (2, LENGTH, LENGTH, hops), generator=source)
    lengths = torch.randint(0, hops + 1, (2, LENGTH, LENGTH), generator=source)

    def mean_of_edges(score, b, h, q_idx, kv_idx):
        length = lengths[b, q_idx, kv_idx]
        total = 0.0
        for hop in range(hops):
            weight = weights[h, hop, edges[b, q_idx, kv_idx, hop]]
            total = total + torch.where(length > hop, weight, 0.0)
        return score + total / torch.clamp(length, min=1)

    return mean_of_edges, None, [weights]


def make_latent(width=8):
    """Multi-head latent attention: the part of the score with positions, of its own queries and keys."""
    q_rope, k_rope = parameter(2, HEADS, LENGTH, width).detach(), parameter(2, 1, LENGTH, width, seed=1).detach()

    def rope(score, b, h, q_idx, kv_idx):
        return score + 0.3 * torch.dot(q_rope[b, h, q_idx], k_rope[b, h // HEADS, kv_idx])

    return rope, causal, []


def make_activation():
    """Attention without the softmax: exp(log(f(score))) is f(score)."""

    def activation(score, b, h, q_idx, kv_idx):
        return torch.log(F.gelu(score, approximate="tanh") + 1.0)

    return activation


def make_buckets():
    """T5's buckets, computed with logarithms as T5 does."""
    table = parameter(HEADS, 16)

    def bucketed(score, b, h, q_idx, kv_idx):
        behind = torch.relu(q_idx - kv_idx)
        far = 8 + (torch.log(behind.float().clamp(min=1) / 8 + 1e-6) / math.log(128 / 8) * 8).to(torch.int32)
        bucket = torch.where(behind < 8, behind, far.clamp(max=15))
        return score + table[h, bucket.long()]

    return bucketed, causal, [table]


def make_decay():
    log_decay = parameter(HEADS, LENGTH)

    def decayed(score, b, h, q_idx, kv_idx):
        return score + (log_decay[h, q_idx] - log_decay[h, kv_idx])

    return decayed, causal, [log_decay]


def make_chain():
    """Two functions one after the other."""
    one, (other, mask, learned) = make_softcap(20.0), make_clipped_relative()
    return lambda score, *place: other(one(score, *place), *place), mask, learned


def make_two_reads():
    """One parameter read in two ways: its gradient is the sum."""
    table = parameter(LENGTH)
    return lambda score, b, h, q_idx, kv_idx: score + table[q_idx] * table[kv_idx], None, [table]


def make_paged(inner, size):
    logical = torch.tensor([[2, -1, 0, 1], [1, 3, -1, 0]])

    def paged(score, b, h, q_idx, physical_idx):
        page = logical[b, physical_idx // size]
        return torch.where(page >= 0, inner(score, b, h, q_idx, page * size + physical_idx % size), float("-inf"))

    return paged


def dampened(score, b, h, q_idx, kv_idx, rate, floor):
    away = torch.abs(q_idx - kv_idx).to(score.dtype)
    return score * torch.clamp(1.0 - rate * away**2 / 64, min=floor) - torch.sqrt(away + 1.0).reciprocal()


def plain(function, mask=None):
    return lambda: (function, mask, [])


SCORES = {
    "noop": plain(noop),
    "checkerboard": plain(checkerboard),
    "causal by score": plain(causal_by_score),
    "relative position": plain(relative_position),
    "alibi": plain(make_alibi(HEADS), causal),
    "alibi of a table": make_alibi_of_table,
    "softcap": plain(make_softcap(5), causal),
    "relative table": make_relative_table,
    "clipped relative table": make_clipped_relative,
    "pair bias": make_pair_bias,
    "pair bias of each sequence": make_pair_bias_of_batch,
    "key bias": make_key_bias,
    "temperature": make_temperature,
    "blend": make_blend,
    "one number": make_one_number,
    "sandwich": make_sandwich,
    "graphormer": make_graphormer,
    "graphormer edges": make_graphormer_edges,
    "latent": make_latent,
    "activation": plain(make_activation()),
    "buckets": make_buckets,
    "decay": make_decay,
    "chain": make_chain,
    "two reads": make_two_reads,
    "paged": plain(make_paged(make_alibi(HEADS), 6)),
    "dampened": plain(partial(dampened, rate=0.05, floor=0.1)),
}
