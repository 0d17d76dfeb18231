"""Tile operations and the values between them."""
