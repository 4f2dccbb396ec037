"""What an adapter adds to a product with a weight (Hu et al., 2021)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.layers.linear import Linear, build_linear


@dataclass(frozen=True, slots=True)
class LowRankUpdate:
    """scale * (x A^T) B^T, for some columns of the product. A row's result does not depend on the other rows."""

    columns: slice
    """Where it belongs in the product: adapters treat as several modules what is computed as one."""
    shrink: Linear
    """in to rank."""
    expand: Linear
    """rank to columns, scaled."""

    @classmethod
    def build(cls, columns: slice, first: Tensor, second: Tensor) -> "LowRankUpdate":
        """`first` is A [rank, in] and `second` is scale * B [columns, rank]."""
        return cls(columns, build_linear(first), build_linear(second))

    def __call__(self, inputs: Tensor) -> Tensor:
        """[rows, in] to [rows, columns]."""
        return self.expand(self.shrink(inputs))
