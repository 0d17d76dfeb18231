"""Attnspec inside other libraries, one module a library; each needs that library installed."""
