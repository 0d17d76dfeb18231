"""Roles of the forward, a file each."""
