"""Detectors: what is wrong with the order of accesses, whether or not this run shows it."""
