"""One line on a terminal that says how far a long command is; nothing where standard error is no terminal."""

import sys
import time

WIDTH = 78


class Progress:
    """A line that is written over and, in the end, taken away."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty()
        self.start = time.perf_counter()

    def show(self, text: str) -> None:
        """Say what is being done."""
        if self.is_shown:
            line = f"{text}, {time.perf_counter() - self.start:.0f} s"
            print(f"\r{line[:WIDTH]:{WIDTH}}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Leave an empty line."""
        if self.is_shown:
            print(f"\r{'':{WIDTH}}\r", end="", file=sys.stderr, flush=True)
