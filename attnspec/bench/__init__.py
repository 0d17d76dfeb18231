"""How fast a variant is beside other people's kernels: the same inputs, the same process, and what each of them can express."""
