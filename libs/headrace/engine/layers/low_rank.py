"""What an adapter adds to a product with a weight (Hu et al., 2021)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class LowRankUpdate:
    """scale * (x A^T) B^T. A row's result does not depend on the other rows."""

    shrink: Linear
    """in to rank."""
    expand: Linear
    """rank to out, scaled."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """[rows, in] to [rows, out]."""
        return self.expand(self.shrink(inputs))
