# The kernel compiler is put on the path by a .pth file that runs code, which type checkers do not; all of it is Any here.
from typing import Any

def __getattr__(name: str) -> Any: ...
