"""The facts about a state space of Mamba-2."""

from dataclasses import dataclass
from typing import Literal

SpaceNorm = Literal["behind_gates", "before_gates", "none"]


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A matrix for each head that decays, and takes a product of each token in: Mamba-2 (Dao and Gu, 2024), as in
    Granite 4. What is taken in and what reads it is convolved before."""

    module: str
    """Name, within the layer, in checkpoints."""
    head_count: int
    head_size: int
    """Elements of a head's input and output."""
    state_size: int
    """Elements that a head's input is multiplied into."""
    group_count: int
    """Groups of consecutive heads that share the products by which they take in and read."""
    width: int
    """Taps of the convolution, the token itself included."""
    has_convolution_bias: bool
    has_bias: bool
    """Whether the products have biases."""
    norm_epsilon: float
    """Epsilon of the norm of outputs."""
    norm: SpaceNorm = "behind_gates"
    """Place of the norm of each group's outputs."""
    input_factors: tuple[float, ...] = ()
    """Factors of gates, inputs, both products of groups, and step sizes. Empty: all are one."""
    output_factor: float = 1.0
    """Factor of what the block adds."""

    @property
    def inner_size(self) -> int:
        """Elements of the inputs of all heads."""
        return self.head_count * self.head_size

    @property
    def group_size(self) -> int:
        """Elements of each product of all groups."""
        return self.group_count * self.state_size

    @property
    def channels(self) -> int:
        """Elements that are convolved: inputs, and the two products."""
        return self.inner_size + 2 * self.group_size

    @property
    def tail_shape(self) -> tuple[int, int]:
        return self.width - 1, self.channels

    @property
    def memory_shape(self) -> tuple[int, int, int]:
        return self.head_count, self.state_size, self.head_size
