"""A linear layer on a GPU, with its weight as it is stored."""

from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.triton.kernel_registry import max_tiled_rows
from headrace.engine.triton.packed_codes import PackedCodes
from headrace.engine.triton.quantized_product import choose_kernel, multiply
from headrace.engine.triton.tile_choice import choose_tiles


class TritonLinear:
    """A product with packed codes: 4 bits take a quarter of the memory of 16-bit numbers."""

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None) -> None:
        self._weight = PackedCodes.of(
            weight.codes, weight.scales, weight.zeros, weight.bits, weight.group_size, weight.input_order
        )
        self._bias = bias
        self._max_tiled_rows = max_tiled_rows(weight.codes.device)
        self._tiles = choose_tiles(weight.codes.device)

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._multiply(inputs, None)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self._multiply(inputs, residual)

    def _multiply(self, inputs: Tensor, residual: Tensor | None) -> Tensor:
        kernel = choose_kernel(len(inputs), self._max_tiled_rows, self._tiles)
        return multiply(self._weight, inputs, self._bias, residual, kernel)
