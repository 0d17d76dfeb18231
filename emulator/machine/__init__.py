"""The machine: memories, barriers, asynchronous units, warps, and the order in which they run."""
