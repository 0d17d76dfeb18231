from collections.abc import Iterator

import pytest
import torch

from tests.distributed.processes import Processes


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Four processes for all tests."""
    started = Processes(4)
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tiles gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
