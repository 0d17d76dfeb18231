"""Small models with random weights, and what eager attention makes of them."""

import torch
from transformers import AutoModelForCausalLM, Gemma2Config, GptOssConfig, LlamaConfig, PreTrainedModel

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 63,
}
CONFIGS = {
    "llama": lambda: LlamaConfig(**SIZES),
    "gemma2": lambda: Gemma2Config(**SIZES, sliding_window=6, query_pre_attn_scalar=24, attn_logit_softcapping=5.0),
    "gpt_oss": lambda: GptOssConfig(**SIZES, sliding_window=6, num_local_experts=2, num_experts_per_tok=1),
}


def model_of(kind: str, attention: str, seed: int = 0) -> PreTrainedModel:
    """A model in f32; equal seeds give equal weights, large enough for attention to matter."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind](), attn_implementation="eager")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 or "sinks" in name:
                weight.normal_(std=0.3)
    model.set_attn_implementation(attention)
    return model.eval()


def tokens(batch: int = 2, length: int = 20, seed: int = 3) -> torch.Tensor:
    """Tokens that are neither padding nor ends."""
    return torch.randint(2, 60, (batch, length), generator=torch.Generator().manual_seed(seed))
