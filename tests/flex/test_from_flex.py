"""What a traced variant says: its text, its declarations and its tensors."""

from functools import partial

import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, noop_mask

import attnspec
from attnspec.language.load import read_spec
from tests.flex.compare import BATCH, HEADS, WIDTH, check_same, draw, visible_by_spec
from tests.flex.masks import MASKS
from tests.flex.scores import SCORES

WINDOW = 128
SIZES = {"batch": BATCH, "heads": HEADS, "len_q": 24, "len_kv": 24}


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def lines(score_mod=None, mask_mod=None, **options) -> list[str]:
    """The statements of a traced variant, behind the head."""
    text = attnspec.from_flex(score_mod, mask_mod, head_dim=64, **options).text
    return [line for line in text.splitlines() if not line.startswith(("#", "attention", "head_dim"))]


def test_the_text_names_what_the_python_named() -> None:
    slopes = torch.rand(8, requires_grad=True)

    def capped_alibi(score, b, h, q_idx, kv_idx, cap=30.0):
        penalty = slopes[h] * (q_idx - kv_idx)
        return cap * torch.tanh(score / cap) - penalty

    def near(b, h, q_idx, kv_idx):
        is_near = q_idx - kv_idx < WINDOW
        return is_near & causal(b, h, q_idx, kv_idx)

    found = attnspec.from_flex(capped_alibi, near, head_dim=64)
    first, *rest = found.text.splitlines()
    assert first.startswith("# Traced from capped_alibi (test_from_flex.py:")
    assert rest == [
        "attention capped_alibi_near",
        "head_dim 64",
        "const cap = 30.0",
        "const WINDOW = 128",
        "learned slopes: f32[heads]",
        "let penalty = slopes[h] * (q - kv)",
        "let is_near = q - kv < WINDOW",
        "score = cap * tanh(score / cap) - penalty",
        "mask = is_near and q >= kv",
    ]
    assert list(found.tensors) == ["slopes"]
    assert found.tensors["slopes"] is slopes


@pytest.mark.parametrize("name", [*MASKS, *SCORES])
def test_the_text_is_a_file_that_reads_as_the_spec(name: str) -> None:
    score_mod, mask_mod, _ = SCORES[name]() if name in SCORES else (None, MASKS[name](), [])
    found = attnspec.from_flex(score_mod, mask_mod, head_dim=64, **SIZES)
    assert read_spec(found.text) == found.spec
    assert max(map(len, found.text.splitlines())) < 600


def test_one_tensor_read_by_query_and_by_key_is_two_declarations() -> None:
    ids = torch.tensor([0, 0, 1, 1])
    found = attnspec.from_flex(None, lambda b, h, q, kv: ids[q] == ids[kv], head_dim=64)
    assert found.text.splitlines()[3:] == [
        "input ids: i32[len_q] sorted",
        "input ids_kv: i32[len_kv] sorted",
        "mask = ids[q] == ids_kv[kv]",
    ]
    assert found.tensors["ids"] is found.tensors["ids_kv"] is ids


def test_ids_that_fall_are_not_sorted() -> None:
    ids = torch.tensor([1, 0, 1, 1])
    assert lines(None, lambda b, h, q, kv: ids[kv] == 1)[0] == "input ids: i32[len_kv]"


def test_ranges_of_indices_come_from_the_data() -> None:
    kinds, table = torch.tensor([0, 3, 1]), torch.rand(4, requires_grad=True)
    assert lines(lambda score, b, h, q, kv: score + table[kinds[kv]])[:2] == [
        "input kinds: i32[len_kv] in 0..3",
        "learned table: f32[4]",
    ]


def test_an_index_out_of_what_can_be_proved_is_brought_inside_as_torch_has_it() -> None:
    table = torch.rand(9)

    def added(score, b, h, q_idx, kv_idx):
        return score + table[q_idx - kv_idx]  # from the end where it is negative

    assert lines(added)[1:] == ["score = score + table[(q - kv) % 9]"]
    assert lines(added, len_q=4, len_kv=1)[1:] == ["score = score + table[min(max(q - kv, 0), 8)]"]
    check_same(lambda score, b, h, q, kv: score + table[(q - kv) % 9 - 9])


def test_axes_are_named_by_the_sizes_that_are_given() -> None:
    counts = torch.zeros(2, 24, 3, dtype=torch.int32)

    def few(b, h, q_idx, kv_idx):
        return counts[b, q_idx, kv_idx // 8] == 0

    assert lines(None, few, **SIZES)[0] == "input counts: i32[batch, len_q, (len_kv + 7) // 8]"
    other = SIZES | {"len_q": 20}
    assert lines(None, few, **other) == [
        "input counts: i32[batch, 24, (len_kv + 7) // 8]",
        "mask = counts[b, min(q, 23), kv // 8] == 0",
    ]


def test_a_mask_that_hides_nothing_is_left_out() -> None:
    assert lines(None, noop_mask) == []
    assert lines(None, and_masks(causal, noop_mask)) == ["mask = q >= kv"]
    assert lines() == []


def test_conditions_are_written_as_conditions() -> None:
    flags = torch.tensor([True, False])

    def mixed(b, h, q_idx, kv_idx):
        same = flags[b] == (kv_idx % 2 == 0)
        return torch.where(kv_idx < 4, True, same) & ~(kv_idx == 9) & (q_idx >= kv_idx).bool()

    assert lines(None, mixed)[1:] == [
        "let same = not (flags[b] and not kv % 2 == 0 or not flags[b] and kv % 2 == 0)",
        "mask = (kv < 4 or same) and not kv == 9 and q >= kv",
    ]


def test_a_value_used_twice_is_written_once() -> None:
    found = lines(lambda score, b, h, q, kv: torch.exp(score * 0.5 + 1) / (1 + torch.exp(score * 0.5 + 1)))
    assert found == ["let part = exp(score * 0.5 + 1.0)", "score = part / (1.0 + part)"]


def test_partial_arguments_globals_and_defaults_are_captured() -> None:
    def rule(b, h, q_idx, kv_idx, size, *, step=2):
        return (q_idx - kv_idx < size) & (kv_idx % step == 0) & (kv_idx < WINDOW)

    assert lines(None, partial(rule, size=9)) == [
        "const size = 9",
        "const step = 2",
        "const WINDOW = 128",
        "mask = q - kv < size and kv % step == 0 and kv < WINDOW",
    ]


def test_names_that_the_language_has_are_changed() -> None:
    scale, len_q = 0.5, torch.tensor(7)
    assert lines(lambda score, b, h, q, kv: score * scale + torch.where(kv < len_q, 0.0, 1.0)) == [
        "const scale_ = 0.5",
        "input len_q_: i32",
        "score = score * scale_ + (0.0 if kv < len_q_ else 1.0)",
    ]


def test_a_function_of_a_module_names_its_attributes() -> None:
    class Bias(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.zeros(4))
            self.reach = 3

        def forward(self, score, b, h, q_idx, kv_idx):
            return score + self.table[torch.clamp(q_idx - kv_idx, 0, self.reach)]

    module = Bias()
    found = attnspec.from_flex(module, head_dim=64)
    assert "learned table: f32[4]" in found.text
    line = Bias.forward.__code__.co_firstlineno
    assert found.text.startswith(f"# Traced from Bias (test_from_flex.py:{line})")
    assert found.tensors["table"] is module.table


def test_options_are_statements() -> None:
    found = attnspec.from_flex(None, causal, head_dim=(192, 128), group=4, dtype=torch.float16, scale=0.25, name="mine")
    assert found.text.splitlines()[1:] == [
        "attention mine", "head_dim 192, 128", "group 4", "dtype fp16", "scale 0.25", "mask = q >= kv"
    ]  # fmt: skip


def test_grouped_heads_and_a_scale_are_torch_s() -> None:
    slopes = torch.rand(HEADS, requires_grad=True)
    check_same(lambda score, b, h, q, kv: score * slopes[h], causal, draw(kv_heads=2), [slopes], enable_gqa=True, scale=0.3)


def test_rows_that_see_nothing_are_zero_as_in_torch() -> None:
    check_same(None, lambda b, h, q, kv: kv <= q - 5, draw(20, 12))


def test_queries_are_counted_from_the_start_also_where_lengths_differ() -> None:
    found = check_same(None, causal, draw(5, 24))
    assert visible_by_spec(found, 24).equal(torch.ones(24, 24, dtype=torch.bool).tril().broadcast_to(BATCH, HEADS, 24, 24))


def test_tensors_of_a_call_are_the_captured_ones_as_they_are_now() -> None:
    table = torch.zeros(2 * HEADS)[::2].double().requires_grad_()
    found = attnspec.from_flex(lambda score, b, h, q, kv: score + table[h], head_dim=WIDTH)
    with torch.no_grad():
        table += 2
    (passed,) = found.tensors.values()
    assert passed.dtype == torch.float32
    assert passed.tolist() == [2.0] * HEADS
    passed.sum().backward()
    assert table.grad is not None


def test_no_kernel_of_torch_runs_on_what_was_captured() -> None:
    table = torch.empty(8, device="meta", requires_grad=True)  # it has no values
    assert lines(lambda score, b, h, q, kv: score + table.exp()[h] * torch.sigmoid(table)[h])[0] == "learned table: f32[heads]"


def test_a_trained_table_goes_on_learning() -> None:
    table = torch.zeros(HEADS, 5, requires_grad=True)
    found = attnspec.from_flex(lambda s, b, h, q, kv: s + table[h, torch.clamp(q - kv, -2, 2) + 2], causal, head_dim=WIDTH)
    attend, optimizer = attnspec.build(found.spec), torch.optim.SGD([table], lr=5.0)
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 24, HEADS, WIDTH, dtype=torch.bfloat16) for _ in range(3))
    losses = []
    for _ in range(4):
        loss = (attend(q, k, v, **found.tensors) - v).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.99 * losses[0]
