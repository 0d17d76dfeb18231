"""Mutants of a PTX text: one synchronisation dropped or corrupted in each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

GUARD = r"(?:@!?%p\d+\s+)?"


@dataclass(frozen=True)
class Mutant:
    """kind: which synchronisation and what was done to it. line: of the text, from 1; text: the line before."""

    kind: str
    line: int
    text: str
    ptx: str


@dataclass(frozen=True)
class Change:
    """kind, the statement as a pattern, and what takes its place (groups as in `re.sub`)."""

    kind: str
    pattern: str
    replacement: str


CHANGES = (
    Change("wait passes at once", r"mbarrier\.try_wait[\w.:]*\s+(\S+),[^;]*;", r"setp.eq.u32 \1, 0, 0;"),
    Change("arrive dropped", GUARD + r"mbarrier\.arrive\.(?:release\.|shared)[^;]*;", ""),
    Change("arrive.expect_tx dropped", GUARD + r"mbarrier\.arrive\.expect_tx[^;]*;", ""),
    Change("bytes not announced", r"arrive\.expect_tx\.([\w.:]+)\s+(\S+)\s*(\[[^\]]*\]),[^;]*;", r"arrive.\1 \2 \3;"),
    Change("commit dropped", GUARD + r"tcgen05\.commit[^;]*;", ""),
    Change("init count + 1", r"(mbarrier\.init\S*\s+\[[^\]]*\]),\s*(%r\d+);", r"add.u32 \2, \2, 1; \1, \2; sub.u32 \2, \2, 1;"),
    Change("fence.mbarrier_init dropped", r"fence\.mbarrier_init[^;]*;", ""),
    Change("fence.proxy.async dropped", r"fence\.proxy\.async[^;]*;", ""),
    Change("tcgen05.fence::before dropped", r"tcgen05\.fence::before_thread_sync;", ""),
    Change("tcgen05.fence::after dropped", r"tcgen05\.fence::after_thread_sync;", ""),
    Change("wait::ld dropped", r"tcgen05\.wait::ld[^;]*;", ""),
    Change("wait::st dropped", r"tcgen05\.wait::st[^;]*;", ""),
    Change("bulk wait_group dropped", r"cp\.async\.bulk\.wait_group[^;]*;", ""),
    Change("bulk commit_group dropped", r"cp\.async\.bulk\.commit_group[^;]*;", ""),
    Change("bar.sync dropped", r"bar\.sync[^;]*;", ""),
    Change("bar.warp.sync dropped", r"bar\.warp\.sync[^;]*;", ""),
    Change("dealloc dropped", r"tcgen05\.dealloc[^;]*;", ""),
)  # fmt: skip
FOREIGN = (  # what our forward has none of
    Change("bar.arrive dropped", r"\bbar(?:rier)?\.(?:cta\.)?arrive[^;]*;", ""),
    Change("barrier.sync dropped", r"\bbarrier\.(?:cta\.)?sync[^;]*;", ""),
    Change("barrier.cluster dropped", r"\bbarrier\.cluster[^;]*;", ""),
    Change("wgmma.fence dropped", r"wgmma\.fence[^;]*;", ""),
    Change("wgmma.commit_group dropped", r"wgmma\.commit_group[^;]*;", ""),
    Change("wgmma.wait_group dropped", r"wgmma\.wait_group[^;]*;", ""),
    Change("wgmma.wait_group waits for one less", r"(wgmma\.wait_group\S*)\s+0;", r"\1 1;"),
)


def mutants(text: str) -> Iterator[Mutant]:
    """All of them, by kind, then by line. Statements of CuTe-DSL's PTX lie on a line of their own."""
    lines = text.splitlines()
    for change in CHANGES + FOREIGN:
        pattern = re.compile(change.pattern)
        for number, line in enumerate(lines):
            if not line.lstrip().startswith("//") and pattern.search(line):
                changed = pattern.sub(change.replacement, line, count=1)
                yield Mutant(change.kind, number + 1, line.strip(), "\n".join([*lines[:number], changed, *lines[number + 1 :]]))


def is_covered(text: str, mutant: Mutant) -> bool:
    """Whether a `tcgen05.fence` has a double in the text: an `::after` that another follows before tensor memory is touched, a
    `::before` that stands behind another with no access of the thread between."""
    lines = text.splitlines()
    if "::after" in mutant.kind:
        return first_of(lines[mutant.line :], "fence::after", r"tcgen05\.(?:ld|st|mma|cp|shift|commit)")
    if "::before" in mutant.kind:
        return first_of(lines[mutant.line - 2 :: -1], "fence::before", r"tcgen05\.(?:ld|st|cp|shift)")
    return False


def first_of(lines: list[str], one: str, other: str) -> bool:
    """Whether a line with `one` comes before any with `other`."""
    found = next((line for line in lines if re.search(f"{one}|{other}", line) and not line.lstrip().startswith("//")), "")
    return one in found
