"""Random numbers: drawn while a function is traced they would stand in the variant for good, so that no draw goes unseen."""

import inspect
import pickle
import random
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NoReturn

import torch

from attnspec.flex.place import place_of
from attnspec.flex.refuse import refuse
from attnspec.flex.vocabulary import NOT_IN_THE_LANGUAGE

WHY = "the variant would hold what is drawn while it is traced, the same numbers for every call"
HELP = "draw them before, and capture them as a tensor"


@lru_cache(maxsize=512)
def is_random(name: str) -> bool:
    """Whether torch says of an operation of that name that its result depends on a seed."""
    packet = getattr(torch.ops.aten, name, None) if not name.startswith("__") else None
    overloads = packet.overloads() if packet is not None else ()
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in overloads)


def refuse_random(name: str) -> NoReturn:
    """At the caller's operation."""
    refuse("random-numbers", f"`{name}` draws random numbers", NOT_IN_THE_LANGUAGE.get(name, HELP), WHY)


def watched(function: Any) -> Callable[[], None]:
    """What refuses the function if a generator of Python's or of numpy's, global or captured, has moved since now."""
    generators = [random, sys.modules.get("numpy.random"), *_captured(function)]
    before = [_state(generator) for generator in generators]

    def check() -> None:
        if before != [_state(generator) for generator in generators]:
            refuse("random-numbers", "this function draws random numbers", HELP, WHY, place_of(function))

    return check


def _captured(function: Any) -> tuple[Any, ...]:
    """What the function has from closures, globals and `partial`."""
    bound: tuple[Any, ...] = ()
    while isinstance(function, partial):
        bound += (*function.args, *function.keywords.values())
        function = function.func
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        return bound
    try:
        found = inspect.getclosurevars(function)
    except ValueError:  # a variable that has no value yet
        return bound
    return (*bound, *found.nonlocals.values(), *found.globals.values())


def _state(generator: Any) -> object:
    """All that the next number depends on; None for what is no generator."""
    if generator is random or isinstance(generator, random.Random):
        return generator.getstate()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return None
    if generator is numpy_random or isinstance(generator, numpy_random.RandomState):
        return pickle.dumps(generator.get_state(legacy=False))
    return pickle.dumps(generator.bit_generator.state) if isinstance(generator, numpy_random.Generator) else None
