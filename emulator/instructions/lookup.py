"""The rule of an instruction: the first family that knows it."""

from collections import defaultdict
from collections.abc import Callable

from attnspec.emulator.errors import UnknownInstruction
from attnspec.emulator.instructions import (
    async_copy,
    atomic,
    bits,
    box_copy,
    bulk_copy,
    control,
    convert,
    floating,
    half,
    integer,
    launch_control,
    matrix_access,
    mbarrier,
    memory,
    narrow,
    predicate,
    remote,
    tensor_access,
    tensor_copy,
    tensor_map_change,
    tensor_mma,
    warp_mma,
    warp_operations,
    warpgroup_mma,
)
from attnspec.emulator.instructions.rule import Act, Rule
from attnspec.emulator.ptx.operands import Instruction

FAMILIES = (
    half,  # before those that would read its types as others
    narrow,
    bits,
    integer,
    floating,
    predicate,
    convert,
    memory,
    control,
    warp_operations,
    mbarrier,
    bulk_copy,
    box_copy,
    async_copy,
    atomic,
    remote,
    matrix_access,
    tensor_access,
    tensor_mma,
    tensor_copy,
    tensor_map_change,
    warpgroup_mma,
    warp_mma,
    launch_control,
)
Maker = Callable[[Instruction], Rule | None]
MAKERS: dict[str, list[Maker]] = defaultdict(list)
for family in FAMILIES:
    for prefix, maker in family.TABLE.items():
        MAKERS[prefix].append(maker)


def rule_of(instruction: Instruction) -> Rule:
    """What an instruction means; UnknownInstruction if no family says."""
    words = instruction.parts
    for length in range(min(len(words), 4), 0, -1):
        for maker in MAKERS.get(".".join(words[:length]), ()):
            rule = maker(instruction)
            if rule is not None:
                return rule
    raise UnknownInstruction(instruction.text, instruction.line)


def begins_block(instruction: Instruction) -> bool:
    """Whether the instruction may block, so that a block must start with it."""
    rule = rule_of(instruction)
    return isinstance(rule, Act) and rule.blocking
