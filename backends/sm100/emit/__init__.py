"""From a schedule to CuTe-DSL source text."""
