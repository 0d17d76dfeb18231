"""The CuTe-DSL library that emitted modules import."""
