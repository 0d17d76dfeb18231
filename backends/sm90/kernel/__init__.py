"""The kernel library of Hopper."""
