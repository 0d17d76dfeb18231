"""Blackwell, compute capability 10.x."""
