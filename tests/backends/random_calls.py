"""Random calls of random variants: what a test could cross with what, drawn so that every pair of choices comes soon.

A trial is a variant with options of `build`, compiled once, and a few calls of it: sizes, memory layouts, a place in longer
sequences, and how the emulator runs them. `trials` takes of many random ones that which has the most pairs of choices that none
before it had (pairwise covering, greedily).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attnspec.runtime.draw_inputs import Shape

import attnspec
from tests.random_statements import MASKS, PACKABLE_MASKS, PACKABLE_SCORES, SCORES, SINKS, Statements

Choices = dict[str, Any]
CANDIDATES = 30  # drawn for each trial
CALLS = 3  # of each variant: compiling takes most of the time
MOST_SCORES = 140_000  # of all heads and sequences, tiles filled up: what the emulator runs in a few seconds
# Options of build, and of what the cost model chooses: the share of exponentials emulated and the degree of their polynomial.
BUILDS: dict[str, dict[str, Any]] = {
    "sm100": {},
    "sm100 one cta": {"ctas": 1},
    "sm100 pair": {"ctas": 2},
    "sm100 one query tile": {"query_tiles": 1},
    "sm100 two query tiles": {"query_tiles": 2},
    "sm100 parts": {"splits": 3},
    "sm100 any parts": {"splits": None},
    "sm100 parts of one query tile": {"splits": 2, "query_tiles": 1},
    "sm100 half emulated": {"share": 0.5, "degree": 5},
    "sm100 nothing emulated": {"share": 0.0},
    "sm100 degree 4": {"share": 0.25, "degree": 4},
    "sm90": {},
    "sm90 emulated": {"share": 0.25, "degree": 4},
    "sm90 nothing emulated": {"share": 0.0},
}
LENGTHS = (0, 1, 2, 64, 127, 128, 129, 130, 200, 257, 300, 390)
VARIANT: dict[str, tuple[Any, ...]] = {
    "build": tuple(BUILDS),
    "deterministic": (False, True),
    "dtype": ("bf16", "fp16"),
    "dims": (
        "8",
        "16",
        "40",
        "64",
        "72",
        "80",
        "96",
        "128",
        "24, 8",
        "64, 128",
        "128, 64",
        "192, 128",
        "136, 200",
        "128, 256",
        "256",
    ),
    "packed": (False, False, False, True),
    "group": (None, None, 1, 2, 3, 8),
    "mask": MASKS,
    "joined": (0, 1, 2),
    "first": SCORES,
    "second": SCORES,
    "third": SCORES,
    "sink": SINKS,
    "learns": (0.0, 0.6, 1.0),
}
CALL: dict[str, tuple[Any, ...]] = {
    "heads": ((1, 1), (2, 1), (2, 2), (4, 2), (3, 1), (8, 1), (6, 2)),
    "batch": (1, 1, 2, 3),
    "len_q": LENGTHS,
    "len_kv": LENGTHS,
    "layout": ("plain", "by head", "among others", "turned", "shared keys"),
    "place": ("whole", "rows", "keys", "both", "longer"),
    "processors": ((1, 3), (2, 4), (3, 2), (4, 1)),
}
PACKED_PLACES = ("packed", "packed with empty")
PAIRED_PROCESSORS = ((2, 4), (4, 2))


@dataclass(frozen=True)
class RandomCall:
    """choices: of `CALL`. seed: of the inputs. timings: seed of each of two runs, None being program order."""

    choices: Choices
    seed: int
    timings: tuple[int | None, int]

    @property
    def shape(self) -> Shape:
        """Whole sizes."""
        return Shape(self.choices["batch"], *self.choices["heads"], self.choices["len_q"], self.choices["len_kv"])


@dataclass(frozen=True)
class Trial:
    """number: of the row of trials. choices: of `VARIANT`, of which text is made."""

    number: int
    choices: Choices
    text: str
    calls: tuple[RandomCall, ...]

    @property
    def target(self) -> str:
        """The chip."""
        return self.choices["build"].split()[0]

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of build, and `share` and `degree`."""
        return BUILDS[self.choices["build"]]

    def show(self, calls: tuple[RandomCall, ...] | None = None) -> str:
        """Everything, for a person who wants to see it again; of some calls or all."""
        lines = [f"# trial {self.number}: {self.choices}", *(f"# {call}" for call in calls or self.calls)]
        return "\n".join((*lines, self.text))


def trials(seed: int) -> Iterator[Trial]:
    """Trials without end, the same for the same seed."""
    chance = random.Random(seed)
    seen: set[tuple[Any, ...]] = set()
    number = 0
    while True:
        drawn = [draw(chance) for _ in range(CANDIDATES)]
        variant, calls = max(drawn, key=lambda one: len(pairs(*one) - seen))
        seen |= pairs(variant, calls)
        own = random.Random(f"{seed}.{number}")
        text = write(variant, own)
        if text is not None:
            yield Trial(number, variant, text, tuple(timed(call, own) for call in calls))
        number += 1


def timed(choices: Choices, chance: random.Random) -> RandomCall:
    """A call with seeds."""
    return RandomCall(choices, chance.randrange(1 << 30), (chance.choice((None, chance.randrange(99))), chance.randrange(99)))


def pairs(variant: Choices, calls: tuple[Choices, ...]) -> set[tuple[Any, ...]]:
    """Every two choices that meet."""
    return {pair for call in calls for pair in combinations((variant | call).items(), 2)}


def draw(chance: random.Random) -> tuple[Choices, tuple[Choices, ...]]:
    """A variant's choices, and those of its calls."""
    found = {name: chance.choice(values) for name, values in VARIANT.items()}
    if found["packed"]:
        found |= {"mask": chance.choice(PACKABLE_MASKS)}
        found |= {name: chance.choice(PACKABLE_SCORES) for name in ("first", "second", "third")}
    return found, tuple(draw_call(found, chance) for _ in range(CALLS))


def draw_call(variant: Choices, chance: random.Random) -> Choices:
    """Choices of a call that go with the variant; smaller where the emulator would take long."""
    values = CALL | ({"place": PACKED_PLACES} if variant["packed"] else {})
    if "pair" in variant["build"]:
        values |= {"processors": PAIRED_PROCESSORS}
    if variant["group"] is not None:
        fitting = tuple(one for one in CALL["heads"] if one[0] == one[1] * variant["group"])
        values |= {"heads": fitting}
    found = {name: chance.choice(options) for name, options in values.items()}
    while scores(found) > MOST_SCORES:
        smaller = {name: [one for one in values[name] if 0 < size(one) < size(found[name])] for name in SIZES}
        name = chance.choice([name for name in SIZES if smaller[name]])
        found[name] = chance.choice(smaller[name])
    return found


SIZES = ("heads", "batch", "len_q", "len_kv")


def size(value: Any) -> int:
    """How much of a size there is; of lengths, in tiles."""
    return value[0] if isinstance(value, tuple) else -(-value // 128) * 128 if value > 8 else value


def scores(choices: Choices) -> int:
    """Scores of a call, with tiles filled up."""
    rows, keys = (max(128, size(choices[name])) for name in ("len_q", "len_kv"))
    return choices["heads"][0] * choices["batch"] * rows * keys


def write(choices: Choices, chance: random.Random) -> str | None:
    """The variant's text; None where the language refuses what chance made of it (a mask that is always false)."""
    made = Statements(chance, choices["packed"], choices["learns"])
    lines = [made.score(kind) for kind in order(choices["first"], choices["second"], choices["third"])]
    mask, sink = made.mask(choices["mask"], choices["joined"]), made.sink(choices["sink"])
    header = f"attention random\nhead_dim {choices['dims']}\ndtype {choices['dtype']}\n" + "varlen\n" * made.is_packed
    header += f"group {choices['group']}\n" if choices["group"] is not None else ""
    text = header + "".join(f"{line}\n" for line in made.declared.values()) + "".join(lines)
    text += (f"mask = {mask}\n" if mask != "true" else "") + sink
    try:
        attnspec.build(text)
    except attnspec.SpecError as error:
        if {one.name for one in error.diagnostics} <= {"mask-hides-every-key"}:
            return None
        raise ValueError(text) from error
    return text


def order(*kinds: str) -> list[str]:
    """Kinds of score one after the other, none of them twice: `scale` and a score of positions alone first, -inf last.

    What is done to a score of -inf may make a NaN of it, and a NaN of a score reaches gradients of keys that are not seen.
    """
    places = {"scaled": 0, "position": 1, "hidden": 3}
    return sorted(dict.fromkeys(kinds), key=lambda kind: places.get(kind, 2))
