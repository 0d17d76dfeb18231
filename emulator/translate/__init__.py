"""Basic blocks to Python functions over 32-lane numpy arrays."""
