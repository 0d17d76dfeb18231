import pytest
import torch
from attnspec.runtime.device import target_for

from attnspec.errors import TargetError

CUDA = torch.device("cuda", 0)


def on_gpu(monkeypatch, capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Test GPU")


@pytest.mark.parametrize("wanted", [None, "reference"])
def test_the_cpu_runs_the_reference(wanted):
    assert target_for(torch.device("cpu"), wanted, None) == "reference"


@pytest.mark.parametrize(("capability", "wanted"), [((10, 0), None), ((10, 0), "sm100"), ((9, 0), None), ((9, 0), "sm90")])
def test_a_gpu_runs_the_target_of_its_architecture(monkeypatch, capability, wanted):
    on_gpu(monkeypatch, capability)
    assert target_for(CUDA, wanted, None) == {10: "sm100", 9: "sm90"}[capability[0]]


@pytest.mark.parametrize(
    ("capability", "wanted", "words"),
    [
        ((9, 0), "sm100", "capability 9.0): sm100 cannot run there"),
        ((10, 3), None, "capability 10.3): code for sm_90a or sm_100a cannot run there"),
        ((8, 0), None, "capability 8.0): code for sm_90a or sm_100a cannot run there"),
        ((12, 0), None, "capability 12.0): code for sm_90a or sm_100a cannot run there"),
        ((10, 0), "reference", "target 'reference' runs on CPU tensors, but q is on cuda:0"),
    ],
)
def test_a_gpu_that_cannot_be_used_is_named_with_the_reason(monkeypatch, capability, wanted, words):
    on_gpu(monkeypatch, capability)
    with pytest.raises(TargetError) as error:
        target_for(CUDA, wanted, None)
    assert words in str(error.value)


def test_a_gpu_target_on_the_cpu_says_where_it_runs():
    with pytest.raises(TargetError, match="target 'sm100' needs tensors on a GPU, but q is on the CPU"):
        target_for(torch.device("cpu"), "sm100", None)
