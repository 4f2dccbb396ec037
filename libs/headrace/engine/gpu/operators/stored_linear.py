"""A linear layer on a GPU: quantized weights are multiplied as they are stored, where a kernel can."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.packing.loaded_weight import problem_of
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.torch_linear import TorchLinear
from headrace.engine.triton.kernel_registry import can_implement


def stored_linear(weight: Weight, bias: Tensor | None = None) -> Linear:
    """Returns the product with `weight` [out, in], plus `bias` [out]."""
    if isinstance(weight, QuantizedMatrix) and can_implement(problem_of(weight, torch.float32, weight.codes.device))[0]:
        # Imports Triton, which only GPUs need.
        from headrace.engine.gpu.operators.triton_linear import TritonLinear

        return TritonLinear(weight, bias)
    return TorchLinear(weight, bias)
