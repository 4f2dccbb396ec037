"""A linear layer that computes one row at a time."""

from collections.abc import Callable

from torch import Tensor

from headrace.engine.torch.operators.row_by_row import row_by_row


class SingleRowLinear:
    """A product computed for each row alone. See `SingleRowOperators`."""

    def __init__(self, product: Callable[[Tensor], Tensor]) -> None:
        self._product = product

    def __call__(self, inputs: Tensor) -> Tensor:
        return row_by_row(self._product, inputs)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
