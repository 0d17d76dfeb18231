"""Prove a draft."""

from attnspec.lowering.schedule.limits import Limits
from attnspec.lowering.schedule.schedule import Draft, Proof, Schedule


def verify(draft: Draft, limits: Limits) -> Schedule:
    """The draft as a schedule."""
    proof = Proof(draft, 0.0, (), ())
    return Schedule(**{name: getattr(draft, name) for name in Draft.__dataclass_fields__}, proof=proof)
