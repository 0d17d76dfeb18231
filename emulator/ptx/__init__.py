"""PTX text to instructions, blocks and join points."""
