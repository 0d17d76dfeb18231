"""The standard variants, as .attn files."""
