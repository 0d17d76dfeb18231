"""Two CTAs of a cluster that share tensor operations: signals from one to the other (PTX ISA, mbarrier, cluster shared memory).

The CTA of rank 0 leads: it issues what is joint, so what a joint operation waits for is told to a barrier of the leader, by both.
"""

from typing import Any

import cutlass.cute as cute
from attnspec.backends.cute.kernel.blocks.ptx import ptx
from cutlass import Int32
from cutlass.cute.nvgpu import tcgen05

LEADER = 0
BOTH = 0b11  # ranks, as bits
CTAS = 2

# The same place in the leader's shared memory; its own for the leader itself.
_LEADERS = f"{{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, {{$r0}}, {LEADER};\n\t"


def rank() -> Int32:
    """Which CTA of the pair this is."""
    return cute.arch.block_idx_in_cluster()


def arrive(barrier: Any) -> None:
    """Arrive at the leader's barrier; one lane."""
    ptx(f"{_LEADERS}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}}", barrier.toint())


def announce(barrier: Any, count: int) -> None:
    """Arrive there, and announce bytes that this CTA's loads will deliver there; one lane."""
    ptx(f"{_LEADERS}mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [there], {count};\n\t}}", barrier.toint())


def commit(barrier: Any) -> None:
    """Arrive at a barrier of each CTA once the leader's tensor operations so far are done; one lane of the leader."""
    tcgen05.commit(barrier, BOTH, tcgen05.CtaGroup.TWO)


def wait(barrier: Any, parity: Any) -> None:
    """Wait for a phase of this CTA's barrier that threads of both complete."""
    again = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [{$r0}], {$r1};\n\t@!done bra again;"
    ptx(f"{{\n\t.reg .pred done;\n\tagain:\n\t{again}\n\t}}", barrier.toint(), parity)


def meet() -> None:
    """A barrier of all warps of both CTAs; every warp that has not left must come."""
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


def put(to: Any, address: Any, words: list[Any]) -> None:
    """16 bytes to an address of the shared memory of the CTA of rank `to`."""
    lines = (
        ".reg .pred own;\n\t.reg .b32 there;",
        "setp.eq.s32 own, {$r1}, {$r2};",
        "mapa.shared::cluster.u32 there, {$r0}, {$r1};",
        "@own st.shared.v4.b32 [{$r0}], {{$r3}, {$r4}, {$r5}, {$r6}};",
        "@!own st.shared::cluster.v4.b32 [there], {{$r3}, {$r4}, {$r5}, {$r6}};",
    )
    ptx("{\n\t" + "\n\t".join(lines) + "\n\t}", address, Int32(to), rank(), *words)


def least(address: Any, value: Any) -> None:
    """The word at an address of both CTAs' shared memory becomes the lesser of what it is and `value`."""
    for one in range(CTAS):
        lines = (
            ".reg .b32 there;",
            f"mapa.shared::cluster.u32 there, {{$r0}}, {one};",
            "red.relaxed.cluster.shared::cluster.min.s32 [there], {$r1};",
        )
        ptx("{\n\t" + "\n\t".join(lines) + "\n\t}", address, value)
