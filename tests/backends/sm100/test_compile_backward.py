"""Every variant's backward becomes a cubin for sm_100a on a machine without a GPU, within its registers."""

import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from attnspec.lowering.schedule.schedule import Schedule
from attnspec.runtime.binary import Binary

from attnspec import stages
from tests.backends.sm100 import census
from tests.backends.sm100.build import with_head_dim
from tests.small_constants import VARIANTS, path_of

QUICK = {"gemma2_local", "relative_bias"}
BEFORE = 2  # barriers of the pass before: out and dout have come, their product is done
SPILL = re.compile(r"\b(?:LDL|STL)\b")


@cache
def compiled(text: str) -> tuple[Schedule, Binary]:
    """The backward of a variant, a path or a text."""
    analysed = stages.analyse(stages.read(text))
    schedule = stages.place(stages.draw(analysed, "backward"), analysed)
    return schedule, stages.assemble(stages.emit(analysed, schedule), Path(mkdtemp(prefix="attnspec-test-")), sass=True)


def variants() -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]


def assert_no_spills(binary: Binary) -> None:
    assert binary.frame_bytes == 0
    assert not SPILL.search(binary.sass or "")


@pytest.mark.parametrize("variant", variants())
def test_backward_compiles_without_spills_to_what_its_schedule_says(variant: str) -> None:
    schedule, binary = compiled(str(path_of(variant)))
    found = binary.census()
    assert_no_spills(binary)
    assert found["mbarrier.init.shared.b64"] == census.barriers(schedule) + BEFORE
    wanted = products(schedule)
    assert {ctas: found.get(f"tcgen05.mma.cta_group::{ctas}.kind::f16", 0) for ctas in (1, 2)} == wanted
    assert found["cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"] == chunks(schedule)


def products(schedule: Schedule) -> dict[int, int]:
    """tcgen05.mma, by the CTAs that share it: each product stands twice, at a tile's first step or last one and in the loop; that
    of out and dout once, in a CTA alone. dQ of a pair is over the keys of both."""
    ctas = schedule.dataflow.ctas
    width, width_v = (census.padded(dim, 16 * ctas) * ctas for dim in (schedule.head_dim, schedule.head_dim_v))
    queries, keys = (census.padded(count, 16) for count in (schedule.dataflow.tile_q, ctas * schedule.dataflow.tile_kv))
    count = {1: 0, 2: 0} | {ctas: 2 * (width + width_v + 2 * queries + keys)}
    return count | {1: count[1] + census.padded(schedule.head_dim_v, 16)}


def chunks(schedule: Schedule) -> int:
    """Bulk reductions of a step."""
    return sum(operation.kind.startswith("reduce_dq") for operation in schedule.dataflow.operations)


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["8", "40", "96", "64, 128", "128, 64", "256", "136"])
def test_head_dimension_compiles(dims: str) -> None:
    assert_no_spills(compiled(with_head_dim(dims))[1])


@pytest.mark.slow
def test_fp16_compiles() -> None:
    text = path_of("gemma2_local").read_text().replace("head_dim", "dtype fp16\nhead_dim", 1)
    assert_no_spills(compiled(text)[1])


CLAMP = re.compile(r"\bVI(?:ADD)?MNMX\b")
TABLE = """attention table
head_dim 64
learned bias: f32[heads, 2049]
score = score + bias[h, clamp(qpos - kv, -1024, 1024) + 1024]
mask = causal
"""


def test_an_element_of_a_table_by_clamped_distance_takes_one_clamp() -> None:
    """The index is proved to be inside the table; there were three clamps an element."""
    lines = (compiled(TABLE)[1].sass or "").splitlines()
    loads = [at for at, line in enumerate(lines) if "LDG.E R" in line]
    chunks = [loads[first : first + 16] for first in range(len(loads) - 15) if loads[first + 15] - loads[first] < 200]
    assert chunks
    for chunk in chunks:
        clamps = [line for line in lines[chunk[0] : chunk[-1]] if CLAMP.search(line)]
        assert len(clamps) <= len(chunk), clamps
