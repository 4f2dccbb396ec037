"""A linear layer on torch."""

from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.weights.quantized_matrix import Weight, plain


class TorchLinear:
    """A plain matrix product. Dequantizes quantized weights to floating point."""

    def __init__(self, weight: Weight, bias: Tensor | None = None) -> None:
        self._weight = plain(weight)
        self._bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self._weight, self._bias)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
