"""The Protocol of attention over a paged KV cache."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats
from headrace.engine.step.step_arrays import StepArrays


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Attention settings shared by all layers of a model."""

    head_count: int
    kv_head_count: int
    """Key and value heads of a layer. Several query heads share each one (Ainslie et al., 2023)."""
    head_size: int
    rotary_size: int
    """Number of leading elements of a head that rotate with the position."""
    scale: float
    """Factor applied to the products of queries and keys."""
    soft_cap: float | None
    """Bound of the scores: s becomes cap * tanh(s / cap), as in Gemma 2."""
    norm_epsilon: float
    norms_rotated: bool = False
    """Whether query and key heads are normalized after they rotate."""


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Attention settings of a single layer."""

    window: int | None
    """Tokens that a query sees, itself included. None: no limit."""
    angles: tuple[Floats, Floats]
    """Cosines and sines, each [positions, rotary/2]."""
    query_norm: Tensor | None = None
    """Weight [head] that normalizes query heads (Henry et al., 2020)."""
    key_norm: Tensor | None = None
    sinks: Tensor | None = None
    """Scores fp32 [heads] that softmax counts beside those of keys: keys without values (Agarwal et al., 2025)."""


class PagedAttention(Protocol):
    """The KV cache of a model, and each layer's attention over it."""

    block_count: int

    @property
    def byte_count(self) -> int:
        """Size of the keys and values of all layers, in bytes."""
        ...

    def begin(self, arrays: StepArrays) -> None:
        """Prepares the step whose tokens attend next."""
        ...

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Computes causal attention of the step's tokens, each within its own sequence.

        `projected` [tokens, (query, key and value heads) x head] may be overwritten; its keys and values go into the
        cache. The result is [tokens, query heads x head].
        """
        ...

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks with untrusted content: masked values are still multiplied by zero, and 0 x NaN is NaN."""
        ...

    def release(self) -> None:
        """Frees the memory and discards its content, until `allocate`."""
        ...

    def allocate(self) -> None:
        """Allocates memory for all layers, empty."""
        ...
