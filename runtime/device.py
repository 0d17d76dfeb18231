"""Which target a device runs."""

import torch

from attnspec.errors import TargetError

TARGETS = {(10, 0): "sm100", (9, 0): "sm90"}  # by compute capability: code for sm_100a and sm_90a runs on no other


def target_for(device: torch.device, wanted: str | None, on: str | None) -> str:
    """The target of a call on a device; TargetError if there is none, or it is not the one wanted."""
    if on == "emulator":
        return emulated_target(device, wanted)
    if device.type == "cpu":
        if wanted in (None, "reference"):
            return "reference"
        raise TargetError(f"target {wanted!r} needs tensors on a GPU, but q is on the CPU; target='reference' runs there")
    if wanted == "reference":
        raise TargetError(f"target 'reference' runs on CPU tensors, but q is on {device}")
    return gpu_target(device, wanted)


def emulated_target(device: torch.device, wanted: str | None) -> str:
    """The GPU target that the emulator runs: Blackwell unless another is wanted."""
    if device.type != "cpu":
        raise TargetError(f"on='emulator' runs on CPU tensors, but q is on {device}")
    return wanted or "sm100"


def gpu_target(device: torch.device, wanted: str | None) -> str:
    """The target of a GPU."""
    if device.type != "cuda":
        raise TargetError(f"q is on {device}: attnspec runs on CUDA GPUs (sm_90, sm_100) and on the CPU")
    major, minor = torch.cuda.get_device_capability(device)
    name = f"{torch.cuda.get_device_name(device)} (compute capability {major}.{minor})"
    target = TARGETS.get((major, minor))
    if target is None or wanted not in (None, target):
        needs = wanted or "code for sm_90a or sm_100a"
        raise TargetError(f"{device} is {name}: {needs} cannot run there; move the tensors to the CPU for the reference")
    return target
