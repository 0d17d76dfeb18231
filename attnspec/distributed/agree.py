"""Whether the ranks make one call: each says what it has, and a difference is an error on all of them that names who differs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch

from attnspec.distributed.ranks import Ranks
from attnspec.errors import ArgumentError

# What ranks must agree on, in the order in which a difference is told of.
LABELS = (
    "attnspec",
    "variant",
    "target",
    "strategy",
    "layout",
    "dtype",
    "batch",
    "heads",
    "options",
    "packed sequences",
    "shapes of declared tensors",
    "values of the tensors that the mask's ranges read",
    "gradients wanted",
)


@dataclass(frozen=True)
class Card:
    """What a rank says of its call. said: by label; rows: of its shards of q and k. error: why it cannot go on."""

    said: Mapping[str, str]
    rows: tuple[int, int]
    error: str | None = None


def agree(ranks: Ranks, card: Card) -> list[tuple[int, int]]:
    """The rows of every rank; ArgumentError on every rank where one cannot go on, or says something else than others.

    One all-gather of a few numbers; the words are sent only if something is wrong.
    """
    numbers = [int(card.error is not None), *card.rows, *(number_of(card.said.get(label, "")) for label in LABELS)]
    mine = torch.tensor(numbers, dtype=torch.int64, device=device_of(ranks))
    everyone = ranks.all_gather("comparing calls", mine).tolist()
    if any(row[0] for row in everyone):
        raise ArgumentError(failures(ranks.objects("comparing calls", card.error)))
    if any(row[3:] != everyone[0][3:] for row in everyone):
        raise ArgumentError(differences(ranks.objects("comparing calls", dict(card.said))))
    return [(row[1], row[2]) for row in everyone]


def device_of(ranks: Ranks) -> torch.device:
    """Where small numbers are exchanged: on the CPU if the group can, so that no GPU is waited for."""
    kinds = {device.type for device in ranks.group._device_types}
    return torch.device("cpu") if "cpu" in kinds else torch.device("cuda", torch.cuda.current_device())


def number_of(text: str) -> int:
    """A text as 63 bits that differ where it does."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def failures(errors: Sequence[str | None]) -> str:
    """The first error, and the ranks that have it."""
    first = next(error for error in errors if error is not None)
    return f"on {named([rank for rank, error in enumerate(errors) if error == first])}: {first}"


def differences(said: Sequence[Mapping[str, str]]) -> str:
    """Every label that differs, with what each rank has."""
    lines = []
    for label in LABELS:
        by_value = defaultdict(list)
        for rank, words in enumerate(said):
            by_value[words.get(label, "")].append(rank)
        if len(by_value) > 1:
            groups = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[1]))
            lines.append(f"{label}: " + "; ".join(f"{value or 'none'} on {named(ranks)}" for value, ranks in groups))
    return "the ranks do not make the same call: " + " | ".join(lines)


def named(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def check_rows(what: str, rows: Sequence[int], wanted: Sequence[int], layout: str) -> None:
    """Shards as the layout cuts them."""
    wrong = [rank for rank, (found, right) in enumerate(zip(rows, wanted, strict=True)) if found != right]
    if wrong:
        have = f"{named(wrong)} {'has' if len(wrong) == 1 else 'have'} {', '.join(str(rows[rank]) for rank in wrong)} rows"
        right = ", ".join(str(wanted[rank]) for rank in wrong)
        cut = f"the layout {layout} of {sum(rows)} positions over {len(rows)} ranks gives {right}"
        raise ArgumentError(f"{what}: {have}, {cut}; shard(x) cuts so")
