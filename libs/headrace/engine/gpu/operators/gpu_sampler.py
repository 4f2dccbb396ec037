"""Sampler of a GPU: torch's, which draws with a kernel."""

import torch

from headrace.engine.gpu.operators.triton_use import can_use_triton
from headrace.engine.torch.sampling.torch_sampler import TorchSampler


def choose_gpu_sampler(device: torch.device, kernels: str) -> TorchSampler:
    """Chooses the sampler of a decoder: without Triton, the one that sorts. `kernels` is that of the settings."""
    if not can_use_triton(device, kernels)[0]:
        return TorchSampler()
    # Imports Triton, which only GPUs need.
    from headrace.engine.gpu.operators.triton_draw import draw

    return TorchSampler(draw)
