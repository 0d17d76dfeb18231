"""One warp role a file."""
