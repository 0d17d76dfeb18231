"""A deadlock in words: what each warp waits for, who would have to signal it, and who has gone past that."""

from dataclasses import dataclass
from typing import Any

from attnspec.emulator.machine.barriers import Mbarrier, NamedBarrier
from attnspec.emulator.machine.warp import Warp
from attnspec.emulator.names import Signal


@dataclass(frozen=True)
class Group:
    """Warps of one CTA and one role that wait for one thing at one place."""

    cta: Any
    role: str
    warps: tuple[Warp, ...]

    @property
    def wait(self) -> Any:
        """What they wait for."""
        return self.warps[0].wait

    @property
    def name(self) -> str:
        """Role and warps."""
        numbers = f"warp{spans([warp.index for warp in self.warps])} of {self.cta.name}"
        return f"{self.role} ({numbers})" if self.role else numbers

    @property
    def signal(self) -> Signal | None:
        """What the barrier stands for, if it is an mbarrier that has a name."""
        return self.wait.barrier.signal if isinstance(self.wait.barrier, Mbarrier) else None

    @property
    def use(self) -> tuple[str, int]:
        """Which use of its barrier is waited for."""
        return self.signal.use(self.wait.barrier.phase) if self.signal is not None else ("", 0)

    @property
    def unit(self) -> str:
        """What its uses are counted in: `step`; nothing for those that compare with no others."""
        return unit_of(self.use[0])

    @property
    def what(self) -> str:
        """The barrier and the use, nothing if it has no name."""
        return (
            ""
            if self.signal is None
            else ", ".join(filter(None, (self.signal.name, self.signal.during(self.wait.barrier.phase))))
        )

    def signals(self, other: "Group") -> bool:
        """Whether another waits for what this one does."""
        return other.signal is not None and other.cta is self.cta and other.signal.role == self.role


def deadlock(warps: list[Warp]) -> str:
    """All of it; warps of a CTA that wait alike share a paragraph."""
    alike: dict[tuple[Any, str, str], list[Warp]] = {}
    for warp in sorted(warps, key=lambda warp: (warp.cta.place, warp.index)):
        role = warp.machine.names.roles.get(warp.index, "")
        alike.setdefault((warp.cta, role, f"{warp.wait} {warp.where()}"), []).append(warp)
    groups = [Group(cta, role, tuple(found)) for (cta, role, _), found in alike.items()]
    lines = [f"all {len(warps)} warps that are left wait"]
    for group in groups:
        lines += paragraph(group)
    return "\n".join([*lines, *(f"  = help: {hint}" for hint in hints(groups))])


def paragraph(group: Group) -> list[str]:
    """One group."""
    verb = "wait" if len(group.warps) > 1 else "waits"
    found, signal = group.wait.barrier, group.signal
    lines = [f"  {group.name} {verb} for {group.what or group.wait}"]
    if signal is not None:
        parity = "" if group.wait.parity is None else f" of parity {group.wait.parity}"
        lines += [f"    signalled by {signal.by}"] if signal.by else []
        lines.append(f"    mbarrier +{found.place}, completion of the phase{parity}: {found.state()}")
    return [*lines, *(f"    {line}" for warp in group.warps[:1] for line in warp.where())]


def hints(groups: list[Group]) -> list[str]:
    """Where a signal got lost: some of its arrivals have come; or who would give it is at something later already, or has left;
    or else it is of those waited for in a circle the oldest."""
    partial = [
        f"of the arrivals at {group.what} some have come, not all: a warp did not arrive, or the barrier is set up for too many"
        for group in groups
        if group.signal is not None and 0 < group.wait.barrier.pending < group.wait.barrier.expected
    ]
    partial += [
        f"of {group.what}, {group.wait.barrier.announced} bytes are announced and {group.wait.barrier.delivered} have come"
        for group in groups
        if group.signal is not None and group.wait.barrier.bytes
    ]
    late = [
        f"{other.name} is at {other.unit} {other.use[1]} already: its signal for {group.what} was lost, or went elsewhere"
        for group in groups
        for other in groups
        if other.signals(group) and group.unit and other.unit == group.unit and other.use[1] > group.use[1]
    ]
    found = list(dict.fromkeys(partial + late or gone(groups)))
    ring = [] if found else circle(groups)
    if ring:
        oldest = min(group.use[1] for group in ring)
        names = " -> ".join(group.role for group in [*ring, ring[0]])
        first = " and ".join(str(group.what) for group in ring if group.use[1] == oldest)
        found.append(f"in a circle, each waits for the next: {names}; look first at {first}")
    return found


def gone(groups: list[Group]) -> list[str]:
    """Signals whose role has exited, or waits for all at a named barrier."""
    found = []
    for group in groups:
        who = [other for other in groups if other.signals(group)]
        if group.signal is None or not group.signal.role:
            continue
        if not who:
            found.append(f"{group.signal.role} has exited: its signal for {group.what} was lost, or went elsewhere")
        elif isinstance(who[0].wait.barrier, NamedBarrier):
            place = f"{who[0].name} is at {who[0].wait.barrier.name} already"
            found.append(f"{place}: its signal for {group.what} was lost, or comes only after that barrier")
    return found


def circle(groups: list[Group]) -> list[Group]:
    """Groups of which each waits for a signal of the next, the last for one of the first; empty if there is no such circle."""
    for start in groups:
        path = [start]
        while True:
            following = next((other for other in groups if other.signals(path[-1])), None)
            if following is None:
                break
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def unit_of(template: str) -> str:
    """`step` of `k of step {}`; nothing for uses that have no unit in common with others."""
    unit = template.removesuffix(" {}").rpartition(" of ")[2]
    return "" if unit in ("use", "") else unit


def spans(indices: list[int]) -> str:
    """[0, 1, 2, 5] as `s 0-2, 5`; a single one as ` 5`."""
    groups: list[list[int]] = []
    for index in indices:
        if groups and index == groups[-1][-1] + 1:
            groups[-1].append(index)
        else:
            groups.append([index])
    text = ", ".join(f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in groups)
    return f"s {text}" if len(indices) > 1 else f" {text}"
