"""Operations on the CPU kernels: the same bits in any batch and on every processor."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.packing.packed_routing import pack_routing
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Function
from headrace.engine.step.sampler import Logits
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.engine.torch.operators.floats import floats
from headrace.engine.torch.operators.kernel_linear import KernelLinear
from headrace.engine.torch.operators.kernel_norm import KernelNorm
from headrace.engine.torch.operators.torch_operators import one_by_one

FUNCTIONS: dict[Activation, Function] = {
    "silu": Function.SILU,
    "gelu": Function.GELU,
    "gelu_tanh": Function.GELU_TANH,
    "relu": Function.RELU,
    "clamped_swish": Function.CLAMPED_SWISH,
}


class KernelOperators:
    """Implements the Protocol of `operators.py` with the CPU kernels. Computes in fp32 and rounds the result to the
    dtype of the inputs."""

    is_batch_invariant = True

    def __init__(self, context: KernelContext, *, exact: bool = True) -> None:
        """`exact`: whether quantized weights are multiplied by inputs as they are, and not by inputs in 8 bits."""
        self.context = context
        self._exact = exact

    def linear(self, weight: Weight, bias: Tensor | None = None) -> KernelLinear:
        """Packs `weight` for products: quantized weights stay packed, and plain ones take 16 bits if that loses
        nothing."""
        return KernelLinear(self.context, weight, bias, exact=self._exact)

    def rms_norm(self, weight: Tensor, epsilon: float) -> KernelNorm:
        return KernelNorm(self.context, weight, None, epsilon)

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> KernelNorm:
        return KernelNorm(self.context, weight, bias, epsilon)

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        if activation == "relu_squared":
            return self._apply(Function.RELU, inputs).square_()
        return self._apply(FUNCTIONS[activation], inputs)

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        numbers = floats(inputs)
        shape = len(numbers), numbers.shape[1] // 2
        outputs = torch.empty(shape)
        self.context.gate(FUNCTIONS[activation], numbers.data_ptr(), outputs.data_ptr(), shape)
        return outputs.to(inputs.dtype)

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        return self._apply(Function.SOFT_CAP, inputs, cap)

    def route(self, scores: Tensor, experts: ExpertConfig, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        numbers = floats(scores)
        shares = torch.empty(len(numbers), experts.place_count)
        chosen = torch.empty(len(numbers), experts.place_count, dtype=torch.int64)
        routing = pack_routing(experts, None if bias is None else bias.data_ptr())
        self.context.route(routing, numbers.data_ptr(), shares.data_ptr(), chosen.data_ptr(), len(numbers))
        return shares.to(scores.dtype), chosen

    def experts(self, experts: ExpertMlp, activation: Activation) -> ExpertMlp:
        return one_by_one(experts, activation)

    def export(self, logits: Tensor) -> Logits:
        return logits.numpy()

    def _apply(self, function: Function, inputs: Tensor, cap: float = 0.0) -> Tensor:
        numbers = floats(inputs)
        place, shape = numbers.data_ptr(), (numbers.shape[0], numbers.shape[1])
        self.context.activate(function, place, place, shape, cap)
        return numbers.to(inputs.dtype)
