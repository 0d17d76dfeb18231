import pytest
import torch

from tests.cases.attend import REFERENCE, Target


@pytest.fixture(
    params=[pytest.param(REFERENCE, id="reference"), pytest.param(Target("sm100"), id="sm100", marks=pytest.mark.slow)]
)
def target(request: pytest.FixtureRequest) -> Target:
    """Each target that runs on this machine; a GPU's kernel takes seconds to compile."""
    return request.param


@pytest.fixture(autouse=True)
def one_thread():
    """Small tiles gain nothing from threads, and tests that share a machine lose much."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
