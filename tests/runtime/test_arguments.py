"""A call that does not fit the spec is an error that names the argument, what was found and what was wanted."""

import pytest
import torch
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec

TEXT = """attention example
head_dim 16
group 2
input ids: i32[batch, len_kv] in 0..9
input slope: f32
learned table: f32[heads, 4]
score = score * slope + table[h, clamp(ids[b, kv], 0, 3)]
"""
PACKED = "attention packed\nhead_dim 16\nvarlen\ninput ids: i32[batch]\nmask = kv >= ids[b]\n"


SHAPE = Shape(2, 4, 2, 5, 7)


def call(text=TEXT, **changes):
    attention = attnspec.build(text)
    inputs = draw_inputs(attention.spec, SHAPE)
    given = {"q": inputs.q, "k": inputs.k, "v": inputs.v, **inputs.keywords, **inputs.tensors} | changes
    given = {name: value for name, value in given.items() if value is not MISSING}
    return attention(**given)


MISSING = object()
HALF = torch.bfloat16


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": [1.0]}, "q: a torch.Tensor is wanted, got list"),
        ({"q": torch.zeros(2, 5, 4, 16)}, "q: dtype torch.float32, wanted torch.bfloat16"),
        ({"q": torch.zeros(5, 4, 16, dtype=HALF)}, "q: shape (5, 4, 16), wanted (batch, length, heads, head_dim)"),
        ({"q": torch.zeros(2, 5, 4, 32, dtype=HALF)}, "q: head_dim 32"),
        ({"k": torch.zeros(3, 7, 2, 16, dtype=HALF)}, "v: shape (2, 7, 2, 16) does not go with k's (3, 7, 2, 16)"),
        ({"q": torch.zeros(3, 5, 4, 16, dtype=HALF)}, "k: batch 2"),
        ({"q": torch.zeros(2, 5, 3, 16, dtype=HALF)}, "q: 3 heads cannot be shared out over 2 key/value heads"),
        ({"q": torch.zeros(2, 5, 6, 16, dtype=HALF)}, "is a group of 3, but example declares `group 2`"),
        ({"k": torch.zeros(2, 7, 2, 16, dtype=HALF, device="meta")}, "k: on meta, but q is on cpu"),
        ({"table": MISSING}, "missing keyword argument: table: f32[heads, 4] (example declares it)"),
        ({"tabel": torch.zeros(1)}, "tabel: example declares no such tensor; did you mean table?"),
        ({"table": torch.zeros(4, 4, device="meta")}, "table: on meta, but q is on cpu"),
        ({"table": torch.zeros(4, 5)}, "table: shape (4, 5), declared f32[heads, 4], which is (4, 4) at batch=2, heads=4"),
        ({"table": torch.zeros(4, 8)[:, ::2]}, "table: stride 2 in the last axis"),
        ({"table": torch.zeros(4, 1).expand(4, 4)}, "table: stride 0 in the last axis"),
        ({"slope": True}, "slope: dtype torch.bool, declared f32"),
        ({"ids": torch.zeros(2, 7)}, "ids: dtype torch.float32, declared i32"),
        ({"ids": torch.full((2, 7), 2**40)}, "ids: torch.int64 values 1099511627776..1099511627776 do not fit in i32"),
        ({"ids": 3}, "ids: a torch.Tensor is wanted, got int"),
        ({"cu_seqlens_q": [0, 5]}, "cu_seqlens_q: only a variant with `varlen` takes packed sequences"),
        ({"q_offset": -1}, "q_offset: -1 is negative"),
        ({"q_offset": 1.5}, "q_offset: an int is wanted, got float"),
        ({"q_offset": 3, "len_q": 7}, "len_q: 7, but 5 positions from 3 on end at 8"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_wanted(changes, words):
    with pytest.raises(attnspec.ArgumentError) as error:
        call(**changes)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cu_seqlens_q": MISSING}, "cu_seqlens_q: missing"),
        ({"cu_seqlens_q": [0, 2, 4]}, "cu_seqlens_q: goes from 0 to 4, wanted 0 to"),
        ({"cu_seqlens_kv": [0, 9, 7]}, "cu_seqlens_kv: falls from 9 to 7 at sequence 1"),
        ({"cu_seqlens_kv": [0, 7]}, "cu_seqlens_kv: 1 sequences, but cu_seqlens_q has 2"),
        ({"cu_seqlens_q": torch.tensor([0.0, 5.0])}, "cu_seqlens_q: torch.float32 of shape (2,)"),
        ({"cu_seqlens_q": 5}, "cu_seqlens_q: an int32 tensor or a list of ints is wanted, got int"),
        ({"cu_seqlens_q": "05"}, "cu_seqlens_q: an int is wanted, got str"),
        ({"cu_seqlens_q": torch.zeros(3, dtype=torch.int32, device="meta")}, "cu_seqlens_q: on meta, which holds no values"),
        ({"q_offset": 1}, "q_offset: packed sequences start at position 0 each"),
        ({"len_q": 9}, "len_q: packed sequences have the lengths that cu_seqlens give"),
        ({"q": torch.zeros(1, 5, 4, 16, dtype=HALF)}, "q: shape (1, 5, 4, 16), wanted (total, heads, head_dim)"),
    ],
)
def test_wrong_packed_sequences_are_named(changes, words):
    attention = attnspec.build(PACKED)
    q, k = torch.zeros(5, 2, 16, dtype=HALF), torch.zeros(7, 2, 16, dtype=HALF)
    given = {"q": q, "k": k, "v": k, "cu_seqlens_q": [0, 3, 5], "cu_seqlens_kv": [0, 3, 7]} | changes
    given = {name: value for name, value in given.items() if value is not MISSING}
    with pytest.raises(attnspec.ArgumentError) as error:
        attention(**given, ids=torch.ones(2, dtype=torch.int32))
    assert words in str(error.value)


def test_a_sparse_tensor_is_told_that_it_is_sparse():
    with pytest.raises(attnspec.ArgumentError, match=r"ids: a dense tensor is wanted, got layout torch\.sparse_coo"):
        call(ids=torch.zeros(2, 7, dtype=torch.int32).to_sparse())


def test_numbers_of_exact_types_are_taken():
    ids = torch.tensor([[0, 1, 2, 3, 9, 5, 6]] * 2)
    expected = call(ids=ids.to(torch.int32), slope=torch.tensor(2.0))
    assert torch.equal(call(ids=ids, slope=2), expected)
    assert torch.equal(call(ids=ids.to(torch.uint8), slope=torch.tensor(2.0, dtype=HALF)), expected)


def test_falling_values_of_a_sorted_tensor_are_an_error():
    text = "attention docs\nhead_dim 16\ninput ids: i32[len_kv] sorted\nmask = ids[kv] == 0\n"
    with pytest.raises(attnspec.ArgumentError, match="ids: declared `sorted`, but its values fall"):
        call(text, ids=torch.tensor([0, 1, 0, 0, 0, 0, 0]))


def test_a_tensor_may_not_have_the_name_of_another_argument():
    with pytest.raises(attnspec.SpecError, match="`v` is an argument of the call"):
        attnspec.build("attention taken\nhead_dim 16\ninput v: f32\nscore = score * v\n")


def test_constants_of_a_checked_spec_cannot_be_overridden():
    spec = attnspec.build("attention folded\nhead_dim 16\nconst n = 3\nmask = kv < n\n").spec
    with pytest.raises(attnspec.ArgumentError, match="n: a Spec has its constants folded in"):
        attnspec.build(spec, n=4)


@pytest.mark.parametrize(
    ("mask", "length", "fits"),
    [("q * len_kv + kv < 5", 46340, True), ("q * len_kv + kv < 5", 46341, False), ("(q * q) // 7 > kv", 46341, True)],
)
def test_integers_that_leave_32_bits_at_the_lengths_of_a_call_are_an_error(mask, length, fits):
    attention = attnspec.build(f"attention big\nhead_dim 8\nmask = {mask}\n")
    q, k = torch.zeros(1, 1, 1, 8, dtype=HALF), torch.zeros(1, 1, 1, 8, dtype=HALF)
    place = {"q_offset": length - 1, "kv_offset": length - 1}
    if fits:
        attention(q, k, k, **place)
        return
    with pytest.raises(attnspec.ArgumentError, match=f"0..{length * length - 1} at .*len_kv={length}") as error:
        attention(q, k, k, **place)
    assert "integer-overflow" in str(error.value)


def test_a_second_derivative_is_an_error_and_not_a_wrong_number():
    attention = attnspec.build("attention plain\nhead_dim 16\n")
    q = torch.randn(1, 2, 1, 16).to(HALF).requires_grad_()
    (dq,) = torch.autograd.grad(attention(q, q, q).float().square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.float().sum().backward()


def test_declared_tensors_given_by_place_are_told_their_names():
    attention = attnspec.build(TEXT)
    inputs = draw_inputs(attention.spec, SHAPE)
    with pytest.raises(attnspec.ArgumentError, match=r"1 more positional argument than q, k and v: .*\(ids=..., slope"):
        attention(inputs.q, inputs.k, inputs.v, inputs.tensors["ids"])  # pyright: ignore[reportCallIssue]


def test_a_number_that_does_not_fit_its_scalar_is_an_error():
    attention = attnspec.build("attention far\nhead_dim 16\ninput n: i32\nmask = kv < n\n")
    q = torch.zeros(1, 1, 1, 16, dtype=HALF)
    with pytest.raises(attnspec.ArgumentError, match="n: 2147483648 does not fit in i32"):
        attention(q, q, q, n=2**31)


def test_values_are_looked_at_in_every_call_of_one_shape():
    attention = attnspec.build("attention docs\nhead_dim 16\ninput ids: i32[len_kv] sorted\nmask = ids[kv] == 0\n")
    q = torch.zeros(1, 3, 1, 16, dtype=HALF)
    attention(q, q, q, ids=torch.tensor([0, 0, 1]))
    with pytest.raises(attnspec.ArgumentError, match="ids: declared `sorted`, but its values fall"):
        attention(q, q, q, ids=torch.tensor([0, 1, 0]))


@pytest.mark.parametrize(
    ("declared", "good", "bad", "said"),
    [
        ("i32[len_kv] in 0..7", [0, 7, 3], [0, 7, 9], r"t: 9 at \[2\], declared `in 0..7`"),
        ("i32[len_kv] in -1..len_kv - 1", [-1, 2, 0], [-2, 0, 0], r"t: -2 at \[0\], declared .*, which is -1..2 here"),
        ("i32 in 0..len_kv", 3, 99, r"t: 99, declared `in 0..len_kv`, which is 0..3 here"),
        (
            "f32[len_kv] in 0.1..float(len_kv) / 2.0",
            [0.1, 1.5, float("nan")],
            [1.0, 1.0, 1.6],
            r"t: 1.6 at \[2\], .* 0.1..1.5 here",
        ),
        ("bf16[len_kv] in -0.1..0.1", [0.1, -0.1, 0.0], [0.2, 0.0, 0.0], r"t: 0.2\d* at \[0\], declared `in -0.1..0.1`"),
    ],
)
def test_values_outside_their_declared_range_are_an_error_in_every_call(declared, good, bad, said):
    use = "t" if "[" not in declared else "t[kv]"
    attention = attnspec.build(f"attention limited\nhead_dim 16\ninput t: {declared}\nscore = score * {use}\n")
    q = torch.zeros(1, 3, 1, 16, dtype=HALF)

    def tensor(values):
        return torch.tensor(values, dtype=HALF if declared.startswith("bf16") else None)

    attention(q, q, q, t=tensor(good))
    with pytest.raises(attnspec.ArgumentError, match=said):
        attention(q, q, q, t=tensor(bad))


def test_a_view_that_starts_between_16_bytes_is_refused_although_its_shape_was_taken_before():
    attention = attnspec.build("attention plain\nhead_dim 16\n")
    store = torch.zeros(1 + 3 * 16, dtype=HALF)
    good, bad = store[:48].view(1, 3, 1, 16), store[1:].view(1, 3, 1, 16)
    attention(good, good, good)
    with pytest.raises(attnspec.ArgumentError, match="k: starts 2 bytes past a 16-byte boundary"):
        attention(good, bad, good)
