"""The update that a LoRA adapter adds to a product (Hu et al., 2021)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class LowRankUpdate:
    """Computes scale * (x A^T) B^T. A row's result does not depend on the other rows."""

    shrink: Linear
    """Product from in to rank."""
    expand: Linear
    """Product from rank to out, scaled."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, in] to [rows, out]."""
        return self.expand(self.shrink(inputs))
