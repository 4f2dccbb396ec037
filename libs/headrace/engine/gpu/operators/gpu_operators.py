"""Operators of a GPU: torch's, with kernels in the place of some.

Norms and gates of the kernels give a row the same bits in any batch. Products with quantized weights do so within one
of their three kernels, which are chosen by the number of rows; torch's products promise nothing.
"""

import torch

from headrace.engine.gpu.operators.stored_linear import stored_linear
from headrace.engine.gpu.operators.triton_use import can_use_triton
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.errors.tree import ConfigError


def choose_gpu_operators(device: torch.device, kernels: str) -> TorchOperators:
    """Chooses the operators of a decoder. `kernels` is that of the settings. Raises ConfigError if they ask for Triton
    where it does not run."""
    fits, reason = can_use_triton(device, kernels)
    if fits:
        # All import Triton, which only GPUs need.
        from headrace.engine.gpu.operators.grouped_experts import group_experts
        from headrace.engine.gpu.operators.triton_gate import gate
        from headrace.engine.gpu.operators.triton_norm import TritonNorm

        return TorchOperators(linear=stored_linear, rms_norm=TritonNorm, gate=gate, experts=group_experts)
    if kernels == "triton":
        raise ConfigError(
            f"kernels is 'triton', but {reason}; use auto, or choose the interpreter, which is slow: set "
            "TRITON_INTERPRET=1",
            param="kernels",
        )
    return TorchOperators(linear=stored_linear)
