"""The Protocol of the operations that a model is made of, apart from attention."""

from typing import Protocol

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.step.sampler import Sampler
from headrace.engine.torch.layers.linear import Linear


class RowNorm(Protocol):
    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, size] to the same shape and dtype."""
        ...


class Operators(Protocol):
    """Operations on the rows of a step. Inputs and outputs have the dtype that the model computes with."""

    @property
    def is_batch_invariant(self) -> bool:
        """Whether a row's result depends on nothing but the row and the weights: not on how many rows there are, nor on
        its place among them."""
        ...

    def linear(self, weight: Weight, bias: Tensor | None = None) -> Linear:
        """The product with `weight` [out, in], plus `bias` [out]."""
        ...

    def rms_norm(self, weight: Tensor, epsilon: float) -> RowNorm:
        """Root mean square layer normalization (Zhang and Sennrich, 2019)."""
        ...

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> RowNorm:
        """Layer normalization (Ba et al., 2016)."""
        ...

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        """The activation of each of [rows, size] numbers, which may be overwritten."""
        ...

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        """The activation of the first half of each row times its second half: [rows, 2 x size] to [rows, size]."""
        ...

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        """cap * tanh(x / cap) of each of [rows, size] numbers, which may be overwritten."""
        ...

    def route(self, scores: Tensor, count: int, *, normalizes: bool) -> tuple[Tensor, Tensor]:
        """Finds the `count` experts that each row of `scores` [rows, experts] prefers, int64 [rows, count]; and before
        them their shares of a softmax over all, or of one over the chosen where `normalizes`, of the same shape."""
        ...

    def sampler(self) -> Sampler:
        """Returns the sampler for logits that `export` gives."""
        ...

    def export(self, logits: Tensor) -> object:
        """Returns logits [rows, vocabulary] as `sampler` takes them."""
        ...
