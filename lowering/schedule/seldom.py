"""Waits that an operation leaves out in runs in which it touches nothing: a rescale of O that no row asks for.

What is proved of a schedule must hold whether they are taken or not. A wait that is taken orders what its own run does; nothing
else may lean on it, so the order is proved a second time, without them and without what those runs would touch.
"""

from dataclasses import replace

from attnspec.lowering.dataflow.graph import Dataflow
from attnspec.lowering.schedule.schedule import Channel, Draft


def is_seldom(dataflow: Dataflow, channel: Channel) -> bool:
    """Whether the waits of a channel may be left out."""
    ends = [(channel.producer, name, channel.buffer, channel.distance) for name in channel.consumers]
    found = [value for value in dataflow.values if (value.producer, value.consumer, value.buffer, value.distance) in ends]
    return any(value.seldom for value in found)


def left_out(draft: Draft) -> Draft | None:
    """The draft whose seldom waits are never taken: their operations touch nothing, and hand on what they would have.

    None where no wait is seldom.
    """
    flow = draft.dataflow
    seldom = {(value.consumer, value.buffer) for value in flow.values if value.seldom}
    if not seldom:
        return None
    kept = [value for value in flow.values if not value.seldom]
    values = tuple(replace(value, buffer=None) if (value.producer, value.buffer) in seldom else value for value in kept)
    channels = tuple(
        replace(channel, buffer=None) if (channel.producer, channel.buffer) in seldom else channel
        for channel in draft.channels
        if not is_seldom(flow, channel)
    )
    return replace(draft, dataflow=replace(flow, values=values), channels=channels)
