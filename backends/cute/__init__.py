"""What the targets whose kernels are CuTe-DSL share."""
