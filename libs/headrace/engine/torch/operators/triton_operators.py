"""Operations on the kernels for GPUs, and through torch's own where there is no such kernel.

Norms and gates give a row the same bits in any batch. Products with quantized weights do so within one of their three
kernels, which are chosen by the number of rows; torch's products promise nothing.
"""

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.step.sampler import Logits, Sampler
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.layers.triton_norm import TritonNorm
from headrace.engine.torch.operators.operators import RowNorm
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.engine.triton.gated_activation import gate_rows


class TritonOperators:
    """Implements the Protocol of `operators.py`."""

    is_batch_invariant = False

    def __init__(self) -> None:
        self._others = TorchOperators()

    def linear(self, weight: Weight, bias: Tensor | None = None) -> Linear:
        return self._others.linear(weight, bias)

    def rms_norm(self, weight: Tensor, epsilon: float) -> RowNorm:
        return TritonNorm(weight, epsilon)

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> RowNorm:
        return self._others.layer_norm(weight, bias, epsilon)

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        return self._others.activate(inputs, activation)

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        return gate_rows(inputs.contiguous(), activation)

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        return self._others.soft_cap(inputs, cap)

    def route(self, scores: Tensor, count: int, *, normalizes: bool) -> tuple[Tensor, Tensor]:
        return self._others.route(scores, count, normalizes=normalizes)

    def sampler(self) -> Sampler:
        return self._others.sampler()

    def export(self, logits: Tensor) -> Logits:
        return self._others.export(logits)
