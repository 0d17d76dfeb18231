"""What a chip offers one block: the numbers that schedules are made for and verified against."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Room and rates of one multiprocessor.

    shared_bytes: shared memory a block may use. tensor_columns: 32-bit columns of tensor memory. registers: 32-bit registers
    of all threads together; thread_registers: least and most that setmaxnreg gives a thread, in steps of eight.
    named_barriers: those a kernel may use (0 is the block's own). Rates are a clock: tensor_flops (dense 16-bit),
    shared_read_bytes, exponentials (MUFU), fma_lanes and alu_lanes (32-bit lanes). l2_bytes: of the whole chip.
    role_kinds: kinds of roles of whole warpgroups that there are kernel functions for; None: any may be searched.
    """

    target: str
    multiprocessors: int
    shared_bytes: int
    tensor_columns: int
    registers: int
    thread_registers: tuple[int, int]
    threads: int
    named_barriers: int
    tensor_flops: int
    shared_read_bytes: int
    exponentials: int
    fma_lanes: int
    alu_lanes: int
    l2_bytes: int
    role_kinds: frozenset[str] | None = None
