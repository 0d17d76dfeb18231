"""What an H100 or H200 multiprocessor offers one block (Hopper tuning guide; FA4 paper, appendix A, for the rates)."""

from attnspec.lowering.schedule.limits import Limits

LIMITS = Limits(
    target="sm90",
    multiprocessors=132,
    shared_bytes=227 * 1024,
    tensor_columns=0,
    registers=65536,
    thread_registers=(24, 240),
    threads=1024,
    named_barriers=15,
    tensor_flops=4096,
    shared_read_bytes=128,
    exponentials=16,
    fma_lanes=128,
    alu_lanes=64,
    l2_bytes=50 * 1024 * 1024,
    role_kinds=frozenset({"attend"}),
)
