"""Races in shared memory among the lanes of one warp, by two instructions.

Lanes need not run in step (independent thread scheduling), so what one writes another may read only after they have met: at a
`bar.warp.sync`, a barrier, an mbarrier that all wait for. PTX asks for one of these. Other `.sync` instructions (shfl, vote)
promise no order of memory, but gather the warp, and the hardware does what follows after what came before: they count unless
`warp-sync` is asked for.
"""

from typing import Any

import numpy as np
from attnspec.emulator.hazards.places import WORD
from attnspec.emulator.instructions.rule import LANES
from attnspec.emulator.machine.shared_memory import RESERVED, SharedMemory

TOGETHER = ("ldmatrix", "stmatrix")  # all lanes' deed, wherever the addresses come from
SEVERAL = -1  # lanes


class Touched:
    """Who touched each word last: the lane, in which meeting of its warp (numbers that no two warps share), and how."""

    def __init__(self, places: int) -> None:
        self.meeting = np.zeros(places, np.int64)
        self.lane = np.zeros(places, np.int64)
        self.at = np.zeros(places, np.int64)

    def clash(self, index: Any, lanes: Any, meeting: int) -> int | None:
        """Where another lane has touched a word in this meeting: position in the index."""
        bad = self.meeting[index] == meeting
        if not bad.any():
            return None
        other = self.lane[index]
        bad &= (other != lanes) | (other == SEVERAL)
        return int(np.argmax(bad)) if bad.any() else None

    def note(self, index: Any, lanes: Any, meeting: int, at: int) -> None:
        """Remember an access; a word that two lanes touch in a meeting is several lanes' from then on."""
        shared = (self.meeting[index] == meeting) & (self.lane[index] != lanes)
        self.lane[index] = np.where(shared, SEVERAL, lanes)
        self.meeting[index] = meeting
        self.at[index] = at


class Lanes:
    """pedantic: only what PTX calls an order counts as one."""

    def __init__(self, reports: Any, pedantic: bool) -> None:
        self.reports = reports
        self.pedantic = pedantic
        self.read: dict[SharedMemory, Touched] = {}
        self.written: dict[SharedMemory, Touched] = {}

    def access(self, warp: Any, memory: SharedMemory, write: bool, places: Any, size: int) -> None:
        """Check an access of a warp, and note it."""
        opcode = self.reports.opcode(warp.at)
        together = opcode.startswith(TOGETHER)
        active = np.arange(LANES) if warp.acting is None else np.flatnonzero(warp.acting)
        if memory is not warp.cta.shared or not (together or opcode.startswith(("ld.", "st."))):
            return
        if not together and len(places) % len(active):
            return  # some lanes reach another CTA's memory
        count = max(1, size // WORD)
        words = np.asarray(places).astype(np.int64)[:, None] // WORD + np.arange(count)
        lanes = np.full(len(words), SEVERAL) if together else np.tile(active, len(words) // len(active))
        index, lanes = words.ravel(), np.repeat(lanes, count)
        meeting = warp.synced if self.pedantic else warp.met
        if memory not in self.written:
            size_in_words = -(-memory.size // WORD)
            self.written[memory], self.read[memory] = Touched(size_in_words), Touched(size_in_words)
        for earlier, wrote in ((self.written[memory], True), (self.read[memory], False))[: 2 if write else 1]:
            at = earlier.clash(index, lanes, meeting)
            if at is not None:
                self.tell(warp, memory, write, wrote, (int(index[at]), int(lanes[at])), earlier)
        (self.written if write else self.read)[memory].note(index, lanes, meeting, warp.at)

    def tell(self, warp: Any, memory: SharedMemory, write: bool, wrote: bool, place: tuple[int, int], earlier: Touched) -> None:
        """Two instructions of one warp touch a word, by different lanes."""
        word, lane = place
        one, other = (("lanes" if who == SEVERAL else f"lane {who}") for who in (lane, int(earlier.lane[word])))
        verbs = f"{'write' if write else 'read'}{'' if lane == SEVERAL else 's'}"
        where = f"shared memory {memory.show(max(word * WORD, RESERVED))} of {memory.name}"
        message = (
            f"{one} of {warp.name} {verbs} {where}, {'written' if wrote else 'read'} by {other}: bar.warp.sync belongs between"
        )
        self.reports.tell("race-lanes", warp, int(earlier.at[word]), warp.name, message)

    def forget(self, memory: SharedMemory) -> None:
        """Its CTA has gone."""
        self.read.pop(memory, None)
        self.written.pop(memory, None)
