"""PTX of CuTe-DSL kernels, executed on a CPU."""

if __name__ != "attnspec.emulator":
    raise ImportError("import attnspec.emulator, not the bare folder name")
