"""Products whose outputs have factors that no weight contains."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class ScaledLinear:
    """A product, times a factor of each output."""

    linear: Linear
    factors: Tensor
    """Factors fp32 [out] or []."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, in] to [rows, out]."""
        return (self.linear(inputs).float() * self.factors).to(inputs.dtype)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the product plus `residual` [rows, out]."""
        return self(inputs) + residual


def scaled(linear: Linear, factors: Tensor | None) -> Linear:
    """Returns a product with factors; None for none."""
    return linear if factors is None else ScaledLinear(linear, factors)


def factor_of(like: Tensor, factor: float) -> Tensor | None:
    """Returns one factor for all outputs, on the device of `like`; None for one."""
    return None if factor == 1.0 else like.new_tensor(factor)
