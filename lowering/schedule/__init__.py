"""Roles, buffers, barriers and registers, verified."""
