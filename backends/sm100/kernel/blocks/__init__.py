"""Pieces that roles share."""
