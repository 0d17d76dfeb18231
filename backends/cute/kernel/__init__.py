"""The part of the kernel library that does not depend on the chip."""
