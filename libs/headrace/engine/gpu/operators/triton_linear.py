"""A linear layer on a GPU, with its weight as it is stored."""

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.triton.kernel_registry import max_tiled_rows
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.quantized_product import (
    ProductKernel,
    choose_kernel,
    gated_product,
    multiply,
    split_product,
)
from headrace.engine.triton.products.tile_choice import choose_tiles
from headrace.engine.triton.split_sum import SplitRows


class TritonLinear:
    """A product with packed codes: 4 bits take a quarter of the memory of 16-bit numbers."""

    def __init__(self, weight: QuantizedMatrix, bias: Tensor | None) -> None:
        self.weight = PackedCodes.of(
            weight.codes,
            weight.scales,
            weight.zeros,
            weight.bits,
            weight.group_size,
            weight.input_order,
            is_float=weight.is_float,
        )
        self._bias = bias
        self._max_tiled_rows = max_tiled_rows(weight.codes.device)
        self._tiles = choose_tiles(weight.codes.device)

    @property
    def has_bias(self) -> bool:
        return self._bias is not None

    def __call__(self, inputs: Tensor) -> Tensor:
        return multiply(self.weight, inputs, self._bias, None, self._kernel(len(inputs)))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return multiply(self.weight, inputs, self._bias, residual, self._kernel(len(inputs)))

    def is_tiled(self, row_count: int) -> bool:
        """Whether the product of so many rows reads packed codes, and so can leave its sums to others."""
        return row_count > 0 and self._kernel(row_count) is not ProductKernel.DEQUANTIZED

    def split(self, inputs: Tensor) -> SplitRows:
        """Returns the product of as many rows as are tiled, with its sums left to the next kernel."""
        return split_product(self.weight, inputs, self._bias, self._kernel(len(inputs)))

    def gated(self, inputs: Tensor, activation: Activation) -> Tensor:
        """Returns the product of as many rows as are tiled, without bias, its first half activated times the second:
        [rows, out / 2]."""
        return gated_product(self.weight, inputs, activation, self._kernel(len(inputs)))

    def _kernel(self, row_count: int) -> ProductKernel:
        return choose_kernel(row_count, self._max_tiled_rows, self._tiles)
