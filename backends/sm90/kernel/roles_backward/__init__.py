"""Roles of the backward that are Hopper's own, a file each."""
