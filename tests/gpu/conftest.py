import pytest
import torch

TARGETS = {(9, 0): "sm90", (10, 0): "sm100"}


@pytest.fixture(scope="session")
def device() -> torch.device:
    """A GPU that attnspec has a target for; without one these tests are skipped."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch finds no CUDA device here")
    capability = torch.cuda.get_device_capability(0)
    if capability not in TARGETS:
        pytest.skip(f"needs a GPU of compute capability 9.0 or 10.0; this one is of {capability[0]}.{capability[1]}")
    return torch.device("cuda", 0)
