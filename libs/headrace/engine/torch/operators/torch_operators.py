"""Operations through torch's own kernels: for GPUs.

A matrix library chooses its kernel by the shape, so the last bits of a row may depend on the number of rows beside it.
A request gets the same text in the same batch, and nearly always in any other. Nothing more is promised here.
"""

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.weights.loaded_weight import problem_of
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.step.sampler import Logits, Sampler
from headrace.engine.torch.layers.layer_norm import LayerNorm
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.layers.rms_norm import RmsNorm
from headrace.engine.torch.operators.torch_linear import TorchLinear
from headrace.engine.torch.operators.torch_sampler import TorchSampler
from headrace.engine.triton.kernel_registry import can_implement


class TorchOperators:
    """Implements the Protocol of `operators.py` with torch."""

    is_batch_invariant = False

    def linear(self, weight: Weight, bias: Tensor | None = None) -> Linear:
        """Multiplies quantized weights as they are stored where a kernel for this device can."""
        if (
            isinstance(weight, QuantizedMatrix)
            and can_implement(problem_of(weight, torch.float32, weight.codes.device))[0]
        ):
            # Imports Triton, which only GPUs need.
            from headrace.engine.torch.layers.triton_linear import TritonLinear

            return TritonLinear(weight, bias)
        return TorchLinear(weight, bias)

    def rms_norm(self, weight: Tensor, epsilon: float) -> RmsNorm:
        return RmsNorm(weight, epsilon)

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> LayerNorm:
        return LayerNorm(weight, bias, epsilon)

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        match activation:
            case "silu":
                return functional.silu(inputs)
            case "gelu":
                return functional.gelu(inputs)
            case "gelu_tanh":
                return functional.gelu(inputs, approximate="tanh")
            case "relu":
                return functional.relu(inputs)

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        gate, up = inputs.chunk(2, dim=-1)
        return self.activate(gate, activation).mul_(up)

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        return (inputs / cap).tanh_().mul_(cap)

    def route(self, scores: Tensor, count: int, *, normalizes: bool) -> tuple[Tensor, Tensor]:
        shares, chosen = torch.topk(torch.softmax(scores, dim=-1, dtype=torch.float32), count, dim=-1)
        if normalizes:
            shares = shares / shares.sum(dim=-1, keepdim=True)
        return shares.to(scores.dtype), chosen

    def sampler(self) -> Sampler:
        return TorchSampler()

    def export(self, logits: Tensor) -> Logits:
        return logits
