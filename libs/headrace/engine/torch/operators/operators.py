"""The Protocol of a model's operations other than attention."""

from typing import Protocol

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.torch.layers.expert_mlp import ExpertMlp, Mixture
from headrace.engine.torch.layers.linear import Linear


class RowNorm(Protocol):
    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, size] to the same shape and dtype."""
        ...


class LinearFactory(Protocol):
    def __call__(self, weight: Weight, bias: Tensor | None = None) -> Linear:
        """Returns the product with `weight` [out, in], plus `bias` [out]."""
        ...


class NormFactory(Protocol):
    def __call__(self, weight: Tensor, epsilon: float) -> RowNorm:
        """Returns a norm of rows with `weight` [size]."""
        ...


class GateFunction(Protocol):
    def __call__(self, inputs: Tensor, activation: Activation) -> Tensor:
        """Activates the first half of each row, times the second half: [rows, 2 x size] to [rows, size]."""
        ...


class ExpertsFactory(Protocol):
    def __call__(self, experts: ExpertMlp, activation: Activation) -> Mixture:
        """Returns a mixture whose experts are gated by `activation`, in the form that computes it best."""
        ...


class Operators(Protocol):
    """Operations on the rows of a step. Inputs and outputs have the model's compute dtype."""

    @property
    def is_batch_invariant(self) -> bool:
        """Whether a row's result depends only on the row and the weights, not on its index or the row count."""
        ...

    def linear(self, weight: Weight, bias: Tensor | None = None) -> Linear:
        """Returns the product with `weight` [out, in], plus `bias` [out]."""
        ...

    def rms_norm(self, weight: Tensor, epsilon: float) -> RowNorm:
        """Returns a root mean square layer normalization (Zhang and Sennrich, 2019)."""
        ...

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> RowNorm:
        """Returns a layer normalization (Ba et al., 2016)."""
        ...

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        """Activates each of [rows, size] numbers. May overwrite `inputs`."""
        ...

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        """Activates the first half of each row, times the second half: [rows, 2 x size] to [rows, size]."""
        ...

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        """Computes cap * tanh(x / cap) for each of [rows, size] numbers. May overwrite `inputs`."""
        ...

    def route(self, scores: Tensor, experts: ExpertConfig, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns the weights and indices (int64) of the experts that compute each row of `scores` [rows, experts],
        both [rows, places], the shared one last. `bias` [experts], fp32: added to scores for the choice alone."""
        ...

    def experts(self, experts: ExpertMlp, activation: Activation) -> Mixture:
        """Returns a mixture whose experts are gated by `activation`, in the form that computes it best."""
        ...

    def export(self, logits: Tensor) -> object:
        """Converts logits [rows, vocabulary] to the form that the backend's sampler takes."""
        ...
