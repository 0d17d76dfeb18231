"""Variants as operators of torch's: importing this is enough to load and run a graph that holds one."""

from attnspec.operators.attend import attend

__all__ = ["attend"]
