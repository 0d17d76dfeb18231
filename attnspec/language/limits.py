"""How large a file, and what it describes, may be. All are checked; the lengths also hold up the proofs of `ranges`."""

MAX_FILE = 256 * 1024  # bytes
MAX_TOKENS = 50_000  # of a file
MAX_STATEMENTS = 1_000
MAX_STATEMENT = 16_000  # characters of one logical line
MAX_NAME = 64  # characters
MAX_DEPTH = 200  # brackets, operators or calls inside each other, also after `let` and `def` are written out
MAX_NODES = 10_000  # of one expression, as a tree, after `let` and `def` are written out
MAX_FAULTS = 20  # reported in one run
MAX_RANK = 8  # axes of a declared tensor

MIN_INT, MAX_INT = -(2**31), 2**31 - 1
MAX_FLOAT = 3.4028234663852886e38  # largest f32
LEAST_FLOAT = 2.0**-149  # least f32 above 0

# Largest sizes a kernel may be called with: integer arithmetic is proved not to leave 32 bits up to these.
MAX_LENGTH = 2**24
MAX_HEADS = 2**16
MAX_BATCH = 2**16
