"""What a B200 multiprocessor offers one block (FlashAttention-4 paper, appendix A; Blackwell tuning guide)."""

from attnspec.lowering.schedule.limits import Limits

LIMITS = Limits(
    target="sm100",
    multiprocessors=148,
    shared_bytes=227 * 1024,
    tensor_columns=512,
    registers=65536,
    thread_registers=(24, 256),
    threads=1024,
    named_barriers=15,
    tensor_flops=8192,
    shared_read_bytes=128,
    exponentials=16,
    fma_lanes=128,
    alu_lanes=64,
    l2_bytes=126 * 1024 * 1024,
    role_kinds=frozenset({"softmax", "correction", "finish", "compute", "reduce"}),
)
