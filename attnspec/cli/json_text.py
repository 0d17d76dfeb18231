"""Facts as JSON text that any reader takes."""

import json
import math
from typing import Any


def json_text(facts: Any) -> str:
    """The text; numbers that JSON does not have are the strings `inf`, `-inf` and `nan`."""
    return json.dumps(finite(facts), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """The same with every number finite."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
