"""The language: text to a checked, typed spec."""
