"""FlexAttention's Python functions as variants: traced, never run."""
