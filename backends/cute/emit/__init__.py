"""Emission that does not depend on the chip: names, functions, masks, the pipe table."""
