"""Plans: what is computed and sent is what the mask shows, held against the mask itself, element by element."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs
from attnspec.runtime.oracle_expression import evaluate

import attnspec
from attnspec.distributed.estimate import H200, choose_layout
from attnspec.distributed.layout import contiguous, layout_of, zigzag
from attnspec.distributed.load import Widths, balanced
from attnspec.distributed.plan import Part, Plan, make_plan, row_in
from attnspec.distributed.simulate import documents
from attnspec.distributed.visible import Sight, Sizes, tensors_of
from tests.random_variants import random_variant

WIDTHS = Widths(1, 1, 16, 16)
CAUSAL = "attention causal\nhead_dim 16\nmask = causal\n"
WINDOW = "attention window\nhead_dim 16\nmask = window(255, 0)\n"
DOCUMENTS = """attention documents
head_dim 16
input ids_q: i32[batch, len_q] sorted
input ids_kv: i32[batch, len_kv] sorted
mask = document(ids_q, ids_kv)
"""


def plan_of(text: str, length: int, ranks: int, layout: str = "contiguous", **tensors: np.ndarray) -> Plan:
    """The plan of one head."""
    sight = Sight(attnspec.build(text).analysed.keys, Sizes(1, 1, 1, (length,), (length,)), tensors)
    return make_plan(sight, WIDTHS, layout_of(layout, length, ranks), layout_of(layout, length, ranks))


def kinds(plan: Plan) -> list[str]:
    """A letter a pair, a row a rank of queries."""
    return ["".join(plan.kind(rank, owner)[0] for owner in range(plan.ranks)) for rank in range(plan.ranks)]


def test_causal_pairs_are_full_below_the_diagonal_and_empty_above():
    assert kinds(plan_of(CAUSAL, 512, 4)) == ["peee", "fpee", "ffpe", "fffp"]


def test_a_window_sends_only_the_rows_that_it_shows():
    plan = plan_of(WINDOW, 4096, 4)
    assert {pair: sum(piece.count for piece in needs) for pair, needs in plan.needs.items() if pair[0] != pair[1]} == {
        (1, 0): 256,
        (2, 1): 256,
        (3, 2): 256,
    }


def test_documents_that_end_with_their_shards_send_nothing():
    ids = np.repeat(np.arange(4), 128)[None]
    plan = plan_of(DOCUMENTS, 512, 4, ids_q=ids, ids_kv=ids)
    assert kinds(plan) == ["feee", "efee", "eefe", "eeef"]


def test_zigzag_balances_a_causal_mask_and_contiguous_does_not():
    assert plan_of(CAUSAL, 8192, 4, "zigzag").balance == 1.0
    assert plan_of(CAUSAL, 8192, 4).balance == pytest.approx(0.5 * (64 + 1) / (64 - 8 + 0.5), rel=1e-2)


def test_a_balanced_layout_of_a_causal_mask_is_zigzag():
    sight = Sight(attnspec.build(CAUSAL).analysed.keys, Sizes(1, 1, 1, (8192,), (8192,)))
    assert {balanced(sight, 8192, 4, 2).counts} == {zigzag(8192, 4).counts}
    pairs = {tuple(sorted(span.first for span in balanced(sight, 8192, 4, 2).spans_of(rank))) for rank in range(4)}
    assert pairs == {(0, 7168), (1024, 6144), (2048, 5120), (3072,)}


def test_the_cost_model_picks_contiguous_for_a_window_and_two_ends_for_causal():
    widths = Widths(8, 8, 128, 128)
    for text, wanted in ((WINDOW, "contiguous"), (CAUSAL, "zigzag")):
        sight = Sight(attnspec.build(text).analysed.keys, Sizes(1, 8, 8, (2**20,), (2**20,)))
        assert choose_layout(sight, widths, 8, H200).name == wanted


def test_the_dearer_a_kernel_call_the_fewer_runs_are_picked():
    ids = documents(65536, 8192, 1)
    walk = attnspec.build(DOCUMENTS.replace("mask =", "mask = causal and")).analysed.keys
    sight = Sight(walk, Sizes(1, 16, 4, (65536,), (65536,)), {"ids_q": ids, "ids_kv": ids})
    picked = [choose_layout(sight, Widths(16, 4, 128, 128), 2, replace(H200, call=call)) for call in (0.0, 50e-6, 5e-3)]
    assert [len(layout.spans) for layout in picked] == sorted((len(layout.spans) for layout in picked), reverse=True)
    assert len(picked[0].spans) > len(picked[2].spans)


def test_work_is_the_tiles_that_one_process_visits():
    from attnspec.lowering.analysis.evaluate import Env, names_for
    from attnspec.lowering.analysis.tiles import count_tiles

    walk = attnspec.build(WINDOW).analysed.keys
    alone = count_tiles(walk, 128, 128, 4096, 4096, Env(names_for(len_q=4096, len_kv=4096))).visited
    assert plan_of(WINDOW, 4096, 4, "zigzag").load.work.sum() == alone


def test_the_explanation_tells_pairs_bytes_and_work():
    text = plan_of(WINDOW, 4096, 4).explain()
    assert "    1  / / . ." in text
    assert "16.4 kB" in text  # 256 rows of 64 bytes
    assert "balance 100%" not in text and "balance 9" in text
    assert "ulysses     heads do not divide: 1 over 1" in text


SHAPES = (Shape(1, 2, 1, 150, 190), Shape(2, 2, 2, 40, 130), Shape(1, 2, 1, 200, 40))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped:13"])
def test_no_visible_pair_is_left_out_and_none_is_computed_twice(seed, layout):
    try:
        attention = attnspec.build(random_variant(seed))
    except attnspec.SpecError:
        return
    spec, shape = attention.spec, SHAPES[seed % 3]
    if spec.is_varlen or spec.mask is None:
        return
    inputs = draw_inputs(spec, shape, seed)
    arrays = {name: value.numpy() for name, value in inputs.tensors.items()}
    walk = attention.analysed.keys
    sizes = Sizes(shape.batch, shape.heads, shape.kv_heads, (shape.len_q,), (shape.len_kv,))
    read = {name: arrays[name] for name in tensors_of(walk)}
    plan = make_plan(Sight(walk, sizes, read), WIDTHS, layout_of(layout, shape.len_q, 3), layout_of(layout, shape.len_kv, 3))
    computed = np.zeros((shape.len_q, shape.len_kv), int)
    full = np.zeros((shape.len_q, shape.len_kv), bool)
    for pair, parts in plan.parts.items():
        for part in parts:
            box = slice(part.queries.first, part.queries.last), slice(part.keys.first, part.keys.last)
            computed[box] += 1
            full[box] |= part.is_full
            row_in(plan.needs[pair], part.keys)
    openers = [part.queries for parts in plan.parts.values() for part in parts if part.opens]
    assert len(set(openers)) == len(openers)
    assert set(openers) <= set(plan.queries)
    assert all(came_first(plan, part, pair) == part.opens for pair, parts in plan.parts.items() for part in parts)
    visible = np.stack([visible_pairs(spec, shape, b, arrays) for b in range(shape.batch)])
    assert computed.max(initial=0) <= 1
    assert not (visible.any((0, 1)) & (computed == 0)).any()
    assert not (full & ~visible.all((0, 1))).any()


def came_first(plan: Plan, part: Part, pair: tuple[int, int]) -> bool:
    """Whether a ring computes a part before all others that hold its first row."""
    rank, _ = pair
    in_turn = [one for step in range(plan.ranks) for one in plan.parts.get((rank, (rank + step) % plan.ranks), ())]
    return next(one for one in in_turn if one.queries.row <= part.queries.row < one.queries.row + one.queries.count) is part


def test_a_part_has_the_rows_alone_that_see_its_keys():
    plan = plan_of(WINDOW, 4096, 4)
    assert [(part.queries.rows, part.keys.rows) for part in plan.parts[1, 0]] == [(slice(0, 256), slice(768, 1024))]
    assert [(part.queries.rows, part.opens) for part in plan.parts[1, 1]] == [(slice(0, 1024), True)]


def visible_pairs(spec, shape: Shape, b: int, tensors) -> np.ndarray:
    """The mask of a batch element by the oracle's evaluation, (heads, len_q, len_kv)."""
    h = np.arange(shape.heads)[:, None, None]
    names = {"b": b, "h": h, "hkv": h // (shape.heads // shape.kv_heads), "batch": shape.batch, "heads": shape.heads}
    names |= {"kv_heads": shape.kv_heads, "len_q": shape.len_q, "len_kv": shape.len_kv}
    names |= {"q": np.arange(shape.len_q)[None, :, None], "kv": np.arange(shape.len_kv)[None, None, :]}
    wide = {name: value.astype(np.int64) if value.dtype == np.int32 else value for name, value in tensors.items()}
    found = evaluate(spec.mask, names, wide).value
    return np.broadcast_to(found, (shape.heads, shape.len_q, shape.len_kv))


def test_plans_of_packed_sequences_stay_inside_them():
    attention = attnspec.build("attention packed\nhead_dim 16\nvarlen\nmask = causal\n")
    sight = Sight(attention.analysed.keys, Sizes(3, 1, 1, (100, 0, 200), (100, 0, 200), True))
    plan = make_plan(sight, WIDTHS, contiguous(300, 2), contiguous(300, 2), [0, 100, 100, 300], [0, 100, 100, 300])
    assert torch.tensor([[plan.kind(rank, owner) == "empty" for owner in range(2)] for rank in range(2)]).tolist() == [
        [False, True],
        [False, False],
    ]
    assert sum(piece.count for piece in plan.needs[1, 0]) == 50
