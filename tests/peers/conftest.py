"""Tests here need the extra `peers`, and say so where it is missing."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.peers.flash_attn_4 import PACKAGES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marked; skipped without the packages."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.peers)
            if missing:
                reason = f"{', '.join(missing)}: not installed; `make test-peers` installs the extra `peers`"
                item.add_marker(pytest.mark.skip(reason=reason))
