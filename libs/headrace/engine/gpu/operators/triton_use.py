"""Use of the kernels in Triton: whether a decoder runs on them."""

import torch

from headrace.engine.triton.kernel_registry import can_launch


def can_use_triton(device: torch.device, kernels: str) -> tuple[bool, str]:
    """Whether a decoder runs on the kernels in Triton, and the reason if it does not: on a GPU unless the settings ask
    for torch alone, and on a CPU, in an interpreter, only if they ask for it."""
    if kernels == "torch":
        return False, "the settings ask for torch"
    if device.type == "cpu" and kernels != "triton":
        return False, "the device is no GPU"
    return can_launch(device)
