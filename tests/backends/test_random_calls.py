"""Random calls of random variants in the emulator: a fixed few; `python -m tests.backends.try_calls` goes on."""

import random
from itertools import islice

import pytest
from attnspec.runtime.arguments import Placing, check_call
from attnspec.runtime.declared import check_declared

import attnspec
from tests.backends.lay_out_calls import inputs_of
from tests.backends.random_calls import CALL, RandomCall, trials, write
from tests.backends.try_calls import attempt
from tests.random_statements import MASKS, PACKABLE_MASKS, PACKABLE_SCORES, SCORES, SINKS

PLAIN = {"dims": "8", "dtype": "fp16", "group": None, "learns": 1.0, "joined": 0, "mask": "none", "sink": "none", "packed": False}
NO_SCORES = {"first": "none", "second": "none", "third": "none"}
KINDS = [
    *({"mask": kind} for kind in MASKS),
    *({"first": kind} for kind in SCORES),
    *({"sink": kind} for kind in SINKS),
    *({"mask": kind, "packed": True} for kind in PACKABLE_MASKS),
    *({"first": kind, "packed": True} for kind in PACKABLE_SCORES),
]


def test_every_kind_of_statement_makes_variants_that_take_the_inputs_drawn_for_them() -> None:
    chance = random.Random(0)
    for kind in KINDS:
        text = write(PLAIN | NO_SCORES | kind, chance)
        assert text is not None, kind
        spec = attnspec.build(text).spec
        places = ("packed", "packed with empty") if spec.is_varlen else CALL["place"]
        sizes = {"heads": (2, 1), "batch": 2, "len_q": 3, "len_kv": 5}
        for place, layout in zip(places, CALL["layout"]):
            inputs = inputs_of(RandomCall(sizes | {"place": place, "layout": layout}, 1, (None, 1)), spec)
            found = check_call(spec, inputs.q, inputs.k, inputs.v, Placing(**inputs.keywords))
            check_declared(spec, inputs.tensors, found, inputs.q.device)


def test_trials_are_the_same_for_the_same_seed() -> None:
    first, again = ([trial.show() for trial in islice(trials(7), 3)] for _ in range(2))
    assert first == again


@pytest.mark.slow
@pytest.mark.parametrize("number", range(12))
def test_random_calls_of_a_random_variant_are_right(number: int) -> None:
    outcome = attempt(next(islice(trials(0), number, None)))
    assert not outcome.wrong, "\n".join((outcome.trial.show(), *(why for _, why in outcome.wrong)))
