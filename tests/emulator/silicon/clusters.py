"""Shared-memory windows and what reaches another CTA of the cluster: loads, stores, atomics, arrivals, bulk copies."""

import numpy as np

from tests.emulator.silicon.probe import Buffer, Probe, entry

SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
REGISTERS = (
    "cluster_ctarank", "cluster_nctarank", "cluster_ctaid.x", "cluster_nctaid.x", "clusterid.x", "nclusterid.x", "ctaid.x",
    "nctaid.x", "ntid.x", "nwarpid", "total_smem_size", "dynamic_smem_size", "aggr_smem_size", "laneid",
)  # fmt: skip


def windows(cluster: int, dynamic: int) -> Probe:
    """`out[cta, word]`: special registers, symbol and mapped addresses, their generic forms less the shared base."""
    lines = ["setp.ne.u32 %q0, %thread, 0;", "mul.wide.u32 %d0, %cta, 256;", "add.u64 %out, %out, %d0;"]
    words: list[str] = []

    def keep(label: str, text: str) -> None:
        lines.append(f"{text}\n@!%q0 st.global.b32 [%out+{4 * len(words)}], %r1;")
        words.append(label)

    for name in REGISTERS:
        keep(name, f"mov.u32 %r1, %{name};")
    keep("static symbol", "mov.u32 %r1, first;")
    keep("second symbol", "mov.u32 %r1, second;")
    keep("dynamic symbol", "mov.u32 %r1, dynamic;")
    for rank in range(cluster):
        keep(f"mapa {rank}", f"mov.u32 %r2, second;\nmapa.shared::cluster.u32 %r1, %r2, {rank};")
    keep("getctarank", "mov.u32 %r2, second;\ngetctarank.shared::cluster.u32 %r1, %r2;")
    last = cluster - 1
    keep("getctarank mapped", f"mov.u32 %r2, second;\nmapa.shared::cluster.u32 %r2, %r2, {last};\n"
         "getctarank.shared::cluster.u32 %r1, %r2;")  # fmt: skip
    keep("generic low", "cvt.u64.u32 %d1, %r2;\nmov.u32 %r2, second;\ncvt.u64.u32 %d1, %r2;\ncvta.shared.u64 %d2, %d1;\n"
         "mov.b64 {%r1, %r3}, %d2;")  # fmt: skip
    keep("generic mapped low", f"mapa.u64 %d3, %d2, {last};\nmov.b64 {{%r1, %r3}}, %d3;")
    keep("generic mapped less generic", "sub.u64 %d4, %d3, %d2;\nmov.b64 {%r1, %r3}, %d4;")
    keep("back to shared", "cvta.to.shared.u64 %d4, %d3;\nmov.b64 {%r1, %r3}, %d4;")
    for space in ("shared", "shared::cta", "shared::cluster", "global", "local"):
        keep(f"isspacep own {space}", f"isspacep.{space} %q1, %d2;\nselp.u32 %r1, 1, 0, %q1;")
        keep(f"isspacep mapped {space}", f"isspacep.{space} %q1, %d3;\nselp.u32 %r1, 1, 0, %q1;")
    lines.append(SYNC)
    shared = ".shared .align 4 .b32 first;\n.shared .align 128 .b8 second[256];\n.extern .shared .align 16 .b8 dynamic[];"
    assert len(words) <= 64, words
    out = Buffer("out", np.zeros((2 * cluster, 64), np.uint32), kept=True)
    text = entry(["out"], "\n".join(lines), shared)
    name = f"windows_{cluster}"
    return Probe(
        name, "9.7.9.20 mapa; FACTS C8", text, (out,), grid=2 * cluster, block=32, cluster=cluster, dynamic_shared=dynamic
    )


def traffic() -> Probe:
    """Cluster of two; `out[cta, 64]`: what each CTA finds in its shared memory after the other wrote to it."""
    body = f"""mov.u32 %r1, data;
mov.u32 %r2, bar;
mov.u32 %r9, %cluster_ctarank;
xor.b32 %r10, %r9, 1;
mapa.shared::cluster.u32 %r3, %r1, %r10;
mapa.shared::cluster.u32 %r4, %r2, %r10;
shl.b32 %r5, %lane, 2;
add.u32 %r6, %r1, %r5;
mov.b32 %r7, 0;
st.shared.b32 [%r6], %r7;
st.shared.b32 [%r6+128], %r7;
st.shared.b32 [%r6+256], %r7;
mad.lo.u32 %r8, %r9, 1000, %lane;
st.shared.b32 [%r6+384], %r8;
setp.eq.u32 %q0, %lane, 0;
@%q0 mbarrier.init.shared::cta.b64 [%r2], 2;
@%q0 fence.mbarrier_init.release.cluster;
fence.proxy.async;
{SYNC}
add.u32 %r11, %r3, %r5;
st.shared::cluster.b32 [%r11], %r8;
and.b32 %r12, %r6, 0xfeffffff;
setp.eq.u32 %q1, %r9, 1;
add.u32 %r13, %r8, 7;
@%q1 st.shared::cluster.b32 [%r12+128], %r13;
and.b32 %r14, %lane, 7;
shl.b32 %r14, %r14, 2;
add.u32 %r14, %r14, %r3;
red.relaxed.cluster.shared::cluster.add.u32 [%r14+256], %lane;
@!%q0 bra SENT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 132;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3+512], [%r1+384], 128, [%r4];
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3+640], %r8, [%r4];
SENT:
mov.b32 %r15, 0;
AGAIN:
add.u32 %r15, %r15, 1;
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q2, [%r2], 0;
@%q2 bra ARRIVED;
setp.lt.u32 %q3, %r15, 1000;
@%q3 bra AGAIN;
ARRIVED:
selp.u32 %r16, 1, 0, %q2;
{SYNC}
ld.shared::cluster.b32 %r17, [%r11+384];
ld.shared.b32 %r18, [%r6];
ld.shared.b32 %r19, [%r6+128];
ld.shared.b32 %r20, [%r6+256];
ld.shared.b32 %r21, [%r6+512];
ld.shared.b32 %r22, [%r1+640];
mad.lo.u32 %r23, %cta, 32, %lane;
mad.wide.u32 %out, %r23, 32, %out;
st.global.v4.b32 [%out], {{%r17, %r18, %r19, %r20}};
st.global.v4.b32 [%out+16], {{%r21, %r22, %r16, %r9}};
{SYNC}"""
    out = Buffer("out", np.zeros((4, 32, 8), np.uint32), kept=True)
    text = entry(["out"], body, ".shared .align 128 .b8 data[1024];\n.shared .align 8 .b64 bar;")
    return Probe("cluster_traffic", "9.7.9 st.async, cp.async.bulk; FACTS C8", text, (out,), grid=4, block=32, cluster=2)


def probes() -> list[Probe]:
    return [windows(1, 0), windows(2, 512), windows(4, 1024), traffic()]
