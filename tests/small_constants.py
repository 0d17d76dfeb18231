"""Constants at which a few hundred positions already meet a variant's mask on both sides."""

from pathlib import Path

import attnspec.variants

VARIANTS = tuple(sorted(path.stem for path in Path(attnspec.variants.__file__).parent.glob("*.attn")))

SMALL: dict[str, dict[str, int | float]] = {
    "bigbird": {"block": 32},
    "chunked": {"chunk": 100},
    "dilated": {"reach": 40},
    "gated_bias": {"reach": 50},
    "gemma2_local": {"window": 150},
    "gemma3_local": {"window": 70},
    "gpt_oss": {"window": 60},
    "image_span": {"window": 50},
    "length_scaled": {"trained": 64},
    "longformer": {"reach": 33},
    "natten_2d": {"rows": 20, "columns": 25, "radius": 3},
    "relative_bias": {"reach": 20},
    "sliding_window": {"left": 64, "right": 10},
    "sliding_window_causal": {"window": 100},
    "streaming_llm": {"window": 80},
    "strided": {"stride": 16},
    "swin_shifted": {"side": 16},
}


def path_of(variant: str) -> Path:
    """The file of a variant."""
    return Path(attnspec.variants.__file__).parent / f"{variant}.attn"
