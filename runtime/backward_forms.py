"""Which of its backward's kernels a program runs for a call, each made when a call first wants it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from attnspec.runtime.call import Call

Made = TypeVar("Made")


class Form(NamedTuple):
    """deterministic: bits do not depend on timing. is_short: for calls of few keys, which one CTA does though pairs do others."""

    deterministic: bool = False
    is_short: bool = False


def none_is_short() -> int:
    """Of a kernel that every call takes."""
    return 0


@dataclass(frozen=True)
class BackwardForms(Generic[Made]):
    """make: one of them. short_calls: keys of the longest calls that are short ones, see `choose_backward_ctas`."""

    make: Callable[[Form], Made]
    short_calls: Callable[[], int] = none_is_short
    made: dict[Form, Made] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def short(self) -> int:
        """Those keys, worked out once."""
        return self.short_calls()

    def of(self, call: Call) -> Made:
        """What a call runs. Packed sequences have no length that is known here, and no pairs unless they are asked for."""
        keys = 0 if call.layout.is_packed else call.k.shape[1]
        return self.at(Form(call.deterministic, bool(self.short) and keys <= self.short))

    def at(self, form: Form) -> Made:
        """The same by name."""
        found = self.made.get(form)
        return self.made.setdefault(form, self.make(form)) if found is None else found
