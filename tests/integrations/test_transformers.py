"""Models of transformers whose attention attnspec computes, against the same weights with eager attention."""

import warnings

import pytest
import torch
import transformers

import attnspec
from attnspec.integrations.transformers import register
from tests.integrations.models import CONFIGS, model_of, tokens

# Weights and activations are f32 in both; q, k, v and the output of attention are rounded to fp16 in ours, 2**-11 of their
# size, and a few layers of large random weights carry that on. A mask that is wrong by one key changes logits by 10%.
TOLERANCE = 0.01


@pytest.fixture(autouse=True)
def ours() -> None:
    """Names are the process's: a program of the page may have given this one another meaning."""
    register("attnspec", dtype=torch.float16)


def check_near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=TOLERANCE * float(wanted.detach().abs().max()), rtol=0)


def padded(ids: torch.Tensor, count: int, side: str) -> torch.Tensor:
    """1 for a token; the first sequence has padding."""
    mask = torch.ones_like(ids)
    mask[0, slice(0, count) if side == "left" else slice(-count, None)] = 0
    return mask


@pytest.mark.parametrize("kind", CONFIGS)
def test_logits_and_gradients_are_those_of_eager_attention(kind: str) -> None:
    eager, ours, ids = model_of(kind, "eager"), model_of(kind, "attnspec"), tokens()
    wanted, found = eager(ids, labels=ids), ours(ids, labels=ids)
    check_near(found.logits, wanted.logits)
    wanted.loss.backward()
    found.loss.backward()
    gradients = {name: weight.grad for name, weight in eager.named_parameters() if weight.grad is not None}
    assert any("sinks" in name for name in gradients) == (kind == "gpt_oss")
    for name, weight in ours.named_parameters():
        if name in gradients:
            check_near(weight.grad, gradients[name])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_padding_is_not_seen(kind: str, side: str) -> None:
    eager, ours, ids = model_of(kind, "eager"), model_of(kind, "attnspec"), tokens()
    mask = padded(ids, 5, side)
    with torch.no_grad():
        wanted, found = (model(ids, attention_mask=mask).logits for model in (eager, ours))
    check_near(found[mask.bool()], wanted[mask.bool()])


@pytest.mark.parametrize("is_padded", [False, True], ids=["whole", "left-padded"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_tokens_generated_with_a_cache_are_those_of_eager_attention(kind: str, is_padded: bool) -> None:
    ids = tokens(length=9)
    mask = padded(ids, 4, "left") if is_padded else torch.ones_like(ids)
    options = {"max_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    eager, ours = (model_of(kind, name).generate(ids, attention_mask=mask, **options) for name in ("eager", "attnspec"))
    assert torch.equal(eager.sequences, ours.sequences)
    for found, wanted in zip(ours.logits, eager.logits, strict=True):
        check_near(found, wanted)


@pytest.mark.parametrize("is_padded", [False, True], ids=["whole", "left-padded"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_tokens_generated_with_a_static_cache_are_those_of_eager_attention(kind: str, is_padded: bool) -> None:
    ids = tokens(length=9)
    mask = padded(ids, 4, "left") if is_padded else torch.ones_like(ids)
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": mask, "cache_implementation": "static"}
    eager, ours = (model_of(kind, name).generate(ids, **options) for name in ("eager", "attnspec"))
    assert torch.equal(eager, ours)


@pytest.mark.parametrize("kind", CONFIGS)
def test_tokens_one_at_a_time_through_a_cache_are_tokens_at_once(kind: str) -> None:
    ours, ids = model_of(kind, "attnspec"), tokens(length=12)
    with torch.no_grad():
        whole, cache, rows = ours(ids).logits, None, []
        for at in range(12):
            step = ours(ids[:, at : at + 1], cache=cache, use_cache=True)
            cache = step.past_key_values
            rows.append(step.logits)
    check_near(torch.cat(rows, 1), whole)


def test_a_window_of_one_key_more_would_be_noticed() -> None:
    ids = tokens()
    model, wider = model_of("gemma2", "attnspec"), model_of("gemma2", "attnspec")
    for layer in wider.model.layers:
        layer.self_attn.config.sliding_window = 7
    with torch.no_grad():
        away = (model(ids).logits - wider(ids).logits).abs().max() / model(ids).logits.abs().max()
    assert away > 5 * TOLERANCE


def test_sequences_packed_by_their_positions_see_themselves_alone() -> None:
    ids = tokens(batch=1)
    places = torch.cat([torch.arange(8), torch.arange(12)])[None]
    with torch.no_grad():
        eager, ours = (
            model_of("llama", name)(ids, position_ids=places, use_cache=False).logits for name in ("eager", "attnspec")
        )
    check_near(ours, eager)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_of_four_axes_is_taken_as_it_is(dtype: torch.dtype) -> None:
    ids = tokens()
    visible = torch.ones(20, 20).tril().bool() & (torch.arange(20) % 7 != 3)
    visible |= torch.eye(20).bool()
    added = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None].expand(2, -1, -1, -1)
    mask = visible[None, None].expand(2, -1, -1, -1) if dtype == torch.bool else added
    with torch.no_grad():
        wanted = model_of("llama", "eager")(ids, attention_mask=added).logits
        found = model_of("llama", "attnspec")(ids, attention_mask=mask).logits
    check_near(found, wanted)


def test_variants_for_each_type_of_layer_are_used() -> None:
    text = f"attention {{name}}\nhead_dim 16\nscale {24**-0.5!r}\nscore = softcap(score, 5.0)\nmask = {{mask}}\n"
    register(
        "by_layer",
        {
            "sliding_attention": text.format(name="local", mask="causal and kv > qpos - 6"),
            "full_attention": text.format(name="everywhere", mask="causal"),
        },
        dtype=torch.float16,
    )
    ids = tokens()
    mask = padded(ids, 5, "left")
    options = {"max_new_tokens": 3, "do_sample": False, "attention_mask": mask}
    eager, ours = model_of("gemma2", "eager"), model_of("gemma2", "by_layer")
    with torch.no_grad():
        check_near(ours(ids, attention_mask=mask).logits[mask.bool()], eager(ids, attention_mask=mask).logits[mask.bool()])
    assert torch.equal(ours.generate(ids, **options), eager.generate(ids, **options))


def test_a_variant_changes_what_a_model_computes_and_its_tensors_learn() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.1, 0.05], requires_grad=True)
    text = "attention sloped\nhead_dim 16\nlearned slopes: f32[heads]\nscore = score + alibi(slopes)\nmask = causal\n"
    register("sloped", text, dtype=torch.float16, tensors={"slopes": slopes})
    ids = tokens()
    found = model_of("llama", "sloped")(ids, labels=ids)
    away = torch.arange(20)[:, None] - torch.arange(20)
    bias = torch.where(away < 0, torch.finfo(torch.float32).min, -slopes.detach()[:, None, None] * away.abs())
    wanted = model_of("llama", "eager")(ids, attention_mask=bias[None].expand(2, -1, -1, -1)).logits
    check_near(found.logits, wanted)
    found.loss.backward()
    assert slopes.grad is not None and bool((slopes.grad != 0).all())


def test_sinks_reach_a_variant_that_has_them() -> None:
    rules = {"sliding_attention": "causal and kv > qpos - 6", "full_attention": "causal"}
    text = "attention with_sinks\nhead_dim 16\nlearned sinks: f32[heads]\nmask = {}\nsink = sinks[h]\n"
    register("with_sinks", {kind: text.format(rule) for kind, rule in rules.items()}, dtype=torch.float16)
    ids = tokens()
    with torch.no_grad():
        check_near(model_of("gpt_oss", "with_sinks")(ids).logits, model_of("gpt_oss", "eager")(ids).logits)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "llama",
            {"spec": "attention a\nhead_dim 64\nmask = causal\n", "dtype": torch.float16},
            "q and k are 16 wide, the variant's 64: write `head_dim 16`",
        ),
        ("llama", {}, "query: dtype torch.float32, wanted bfloat16 or float16: load the model with dtype=torch.bfloat16"),
        ("gpt_oss", {"spec": "attention a\nhead_dim 16\nmask = causal\n", "dtype": torch.float16}, "this model has sinks"),
        ("gemma2", {"spec": f"attention a\nhead_dim 16\nscale {24**-0.5!r}\n", "dtype": torch.float16}, "caps its scores at 5.0"),
        (
            "gemma2",
            {"spec": "attention a\nhead_dim 16\nscore = softcap(score, 5.0)\n", "dtype": torch.float16},
            "this model scales by 0.204",
        ),
        ("gemma2", {"spec": {"full_attention": "attention a\nhead_dim 16\n"}, "dtype": torch.float16}, "type sliding_attention"),
        (
            "llama",
            {"spec": "attention a\nhead_dim 16\nlearned w: f32[heads]\nscore = score * w[h]\n", "dtype": torch.float16},
            r"missing keyword argument: w: f32\[heads\]",
        ),
    ],
)
def test_what_a_model_asks_for_and_a_variant_lacks_is_an_error(kind: str, options: dict, message: str) -> None:
    register("refused", **options)
    with pytest.raises(attnspec.ArgumentError, match=message):
        model_of(kind, "refused")(tokens())


@pytest.mark.parametrize("name", ["eager", "sdpa", "flex_attention", "theirs"])
def test_a_name_that_others_registered_is_refused(name: str) -> None:
    known = transformers.AttentionInterface._global_mapping
    known["theirs"] = before = known["sdpa"]
    try:
        with pytest.raises(attnspec.ArgumentError, match=f"name: '{name}' is an attention of transformers' own or of another"):
            register(name)
        assert known["sdpa"] is before
    finally:
        del known["theirs"]


def test_a_name_that_nobody_can_ask_for_is_refused() -> None:
    with pytest.raises(attnspec.ArgumentError, match=r"name: 'paged\|x', wanted a name"):
        register("paged|x")


@pytest.mark.slow
def test_a_compiled_model_is_the_model_and_one_graph_of_it_is_refused_with_the_reason() -> None:
    model, ids = model_of("llama", "attnspec"), tokens(length=6)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_near(torch.compile(model, backend="eager")(ids).logits, model(ids).logits)
        torch.compiler.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match=r"compile the model without fullgraph=True"):
            torch.compile(model, backend="eager", fullgraph=True)(ids)
    torch.compiler.reset()


def test_dropout_is_refused() -> None:
    model = model_of("llama", "attnspec")
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.1
    model.train()
    with pytest.raises(attnspec.ArgumentError, match=r"dropout: 0\.1"):
        model(tokens())


def test_a_model_in_sixteen_bits_needs_no_conversion() -> None:
    register("plain")
    ids = tokens()
    model = model_of("llama", "plain").to(torch.bfloat16)
    with torch.no_grad():
        found, wanted = model(ids).logits, model_of("llama", "eager")(ids).logits
        eager = model_of("llama", "eager").to(torch.bfloat16)(ids).logits
    # No worse than eager attention in the same type is to the f32 model, up to chance.
    assert (found - wanted).abs().mean() < 1.2 * (eager - wanted).abs().mean()
