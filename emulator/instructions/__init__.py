"""What each PTX instruction means: one family a file, a table from opcode to rule in each."""
