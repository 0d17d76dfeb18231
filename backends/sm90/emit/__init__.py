"""Emission for Hopper."""
