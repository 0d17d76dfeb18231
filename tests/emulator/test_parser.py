"""PTX text to instructions, scopes and blocks."""

import pytest
from attnspec.emulator.errors import EmulatorError, UnknownInstruction
from attnspec.emulator.instructions.lookup import begins_block
from attnspec.emulator.launch import run_ptx
from attnspec.emulator.ptx.flow import EXIT, blocks
from attnspec.emulator.ptx.operands import Address, Immediate, Label, Register, Sink, Symbol, Two, Vector
from attnspec.emulator.ptx.parser import parse

from tests.emulator.snippet import kernel


def instructions(body: str):
    """Instructions of a body."""
    return parse(kernel(body))[0].instructions


def test_operands_of_each_form_are_read():
    (instruction,) = instructions("x.y [%r1+-8], {%r2, 0f3F800000}, sym+4, _|%p1, -1;")[:1]
    address, vector, symbol, two, number = instruction.operands
    assert isinstance(address, Address) and address.offset == -8
    assert isinstance(vector, Vector) and vector.items[1] == Immediate(0x3F800000, 32)
    assert symbol == Symbol("sym", 4)
    assert isinstance(two, Two) and two.first == Sink()
    assert number == Immediate(-1)


def test_tensor_coordinates_follow_the_base_of_an_address():
    (instruction,) = instructions("x [%rd1, {%r1, %r2}], [%r3];")[:1]
    assert isinstance(instruction.operands[0], Address)
    assert len(instruction.operands[0].parts) == 1


def test_a_register_of_an_inner_scope_hides_the_outer_one():
    code = instructions("mov.b32 %r1, 1; { .reg .b32 %r1; mov.b32 %r1, 2; } mov.b32 %r1, 3;")
    first, inner, last = (one.operands[0] for one in code[:3])
    assert isinstance(first, Register) and first == last and inner != first


def test_a_label_means_the_one_of_its_own_scope():
    loop = "{ .reg .pred P; AGAIN: setp.eq.b32 P, 1, 1; @P bra DONE; bra AGAIN; DONE: }"
    code = instructions(loop + loop)
    labels = [operand for one in code for operand in one.operands[:1] if isinstance(operand, Label)]
    targets = [label.position for label in labels]
    assert targets == [3, 0, 6, 3]


def test_lines_and_source_lines_are_kept():
    text = kernel(".loc 1 42 7\n    mov.b32 %r1, 0;", declarations='.file 1 "forward.py"')
    (instruction,) = parse(text)[0].instructions[:1]
    assert instruction.source == ("forward.py", 42)
    assert text.split("\n")[instruction.line - 1].strip() == "mov.b32 %r1, 0;"


def test_an_undeclared_label_is_an_error_with_its_line():
    with pytest.raises(EmulatorError, match="goes to no label"):
        instructions("bra NOWHERE;")


def test_an_unknown_instruction_is_an_error_that_names_the_line():
    text = kernel("mov.b32 %r1, 0;\n    frobnicate.b32 %r1, %r1;")
    with pytest.raises(UnknownInstruction, match=r"PTX line \d+: `frobnicate.b32 %r1, %r1`") as caught:
        run_ptx(text)
    assert text.split("\n")[caught.value.line - 1].strip().startswith("frobnicate")


def test_a_known_opcode_in_an_unknown_form_is_an_error():
    with pytest.raises(UnknownInstruction, match="sparse"):
        run_ptx(kernel("tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r3], %r2, %p1;"))


@pytest.mark.parametrize(
    "code",
    [
        "add.odd.s32 %r1, %r2, %r3;",
        "max.odd.f32 %r1, %r2, %r3;",
        "cvt.rn.strange.f16.f32 %h1, %r1;",
        "ld.shared.strange.b32 %r1, [%r2];",
        "mbarrier.arrive.odd.shared.b64 %rd1, [%r1], %r2;",
        "tcgen05.ld.sync.aligned.32x32b.x2.odd.b32 {%r1, %r2}, [%r3];",
    ],
)
def test_a_modifier_that_no_rule_knows_is_an_error(code):
    with pytest.raises(UnknownInstruction, match="modifier"):
        run_ptx(kernel(code))


def test_two_ways_of_a_branch_meet_where_they_join():
    found = blocks(
        parse(kernel("setp.eq.b32 %p1, 1, 1; @%p1 bra A; mov.b32 %r1, 1; bra B; A: mov.b32 %r1, 2; B: mov.b32 %r2, 1;"))[0],
        begins_block,
    )
    assert [block.join for block in found] == [3, 3, 3, EXIT]


def test_a_block_starts_at_an_instruction_that_may_block():
    found = blocks(parse(kernel("mov.b32 %r1, 1; bar.sync 0; mov.b32 %r2, 1;"))[0], begins_block)
    assert [(block.first, block.last) for block in found] == [(0, 1), (1, 4)]
