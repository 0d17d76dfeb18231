"""Readable torch, for any machine."""
