"""The Hopper backward as a cubin: what a step holds fits its registers."""

import re
from pathlib import Path
from tempfile import mkdtemp

import pytest
from attnspec.runtime.assemble import assemble

from attnspec import stages
from tests.small_constants import path_of

INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(.*?);")
LABEL = re.compile(r"\s*(\.L_x_\d+):")
JUMP = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")
SPILL = re.compile(r"\b(?:LDL|STL)\b")
SECTION, MAIN = ".section\t.text.", "backward_kernel"
CLAMP = re.compile(r"\bVI(?:ADD)?MNMX\b")
TABLE = """attention table
head_dim {}
const reach = 1024
learned bias: f32[heads, 2 * reach + 1]
score = score + bias[h, clamp(qpos - kv, -reach, reach) + reach]
mask = causal
"""
WIDE = "attention wide\nhead_dim {}\nmask = kv <= qpos\n"


def sass_of(source: object) -> str:
    analysed = stages.analyse(stages.read(source))
    schedule = stages.place(stages.draw(analysed, "backward", "sm90"), analysed, "sm90")
    binary = assemble(stages.emit(analysed, schedule), Path(mkdtemp(prefix="attnspec-test-")), sass=True)
    assert binary.sass is not None
    return binary.sass


def step_of(sass: str) -> list[str]:
    """Instructions of the smallest loop that all products of the main kernel are in; the pass before it multiplies too."""
    sass = next(part for part in sass.split(SECTION)[1:] if MAIN in part.partition("\n")[0])
    instructions: list[str] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := INSTRUCTION.match(line):
            instructions.append(found[1])
    products = [at for at, text in enumerate(instructions) if "HGMMA" in text]
    jumps = [(labels[jump[1]], at) for at, text in enumerate(instructions) if (jump := JUMP.search(text)) and jump[1] in labels]
    loops = [(first, last) for first, last in jumps if first <= products[0] and products[-1] <= last]
    first, last = min(loops, key=lambda loop: loop[1] - loop[0])
    return instructions[first : last + 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        "dense",
        "causal",
        "sliding_window_causal",
        "document_causal",
        "softcap",
        "alibi",
        "gpt_oss",
        "relative_bias",
        "t5_bias",
        "forgetting",
    ],
)
def test_no_step_of_a_variant_spills(variant: str) -> None:
    assert [text for text in step_of(sass_of(path_of(variant))) if SPILL.search(text)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "masked", "full"),
    [("block_causal", 8, 0), ("length_scaled", 4, 3)],
)
def test_long_steps_spill_little_and_mostly_where_they_are_masked(variant: str, masked: int, full: int) -> None:
    """80 queries leave a thread hardly a register; they are faster all the same (docs/notes/hopper.md)."""
    step = step_of(sass_of(path_of(variant)))
    middle = len([text for text in step if "HGMMA" in text]) // 2
    second = [at for at, text in enumerate(step) if "HGMMA" in text][middle]
    spills = [sum(bool(SPILL.search(text)) for text in part) for part in (step[:second], step[second:])]
    assert (spills[0] <= masked, spills[1] <= full) == (True, True), spills


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "192, 128", "256"])
def test_no_step_of_a_head_dimension_spills(dims: str) -> None:
    assert [text for text in step_of(sass_of(WIDE.format(dims))) if SPILL.search(text)] == []


@pytest.mark.slow
def test_what_is_found_by_searching_a_tensor_is_found_once_a_tile() -> None:
    """A search is a warp's votes over what it loads: as much as a step takes, when it has to come from far."""
    step = step_of(sass_of(path_of("document_causal")))
    assert [text for text in step if SPILL.search(text) or "VOTE" in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["64", "128"])
def test_an_element_of_a_table_by_clamped_distance_takes_one_clamp_and_one_product(dims: str) -> None:
    """The index is proved to be inside the table, and the last axis has stride 1."""
    step = step_of(sass_of(TABLE.format(dims)))
    middle = [at for at, text in enumerate(step) if "HGMMA" in text][sum("HGMMA" in text for text in step) // 2]
    unmasked = step[middle:]
    reads = [text for text in unmasked if "LDG" in text]
    clamps = [text for text in unmasked if CLAMP.search(text)]
    wide = [text for text in unmasked if "IMAD.WIDE" in text]
    assert len(reads) == 18
    assert len(clamps) <= len(reads) + 1, clamps  # one is of the loop's next trip
    assert len(wide) <= len(reads) + 1, wide
    assert [text for text in step if SPILL.search(text)] == []
