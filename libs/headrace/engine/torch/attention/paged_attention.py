"""The Protocol of attention over a paged KV cache."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace.engine.checkpoints.facts.rope_scaling import Floats
from headrace.engine.step.step_arrays import StepArrays


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Attention settings shared by all layers of a model."""

    head_count: int
    kv_head_count: int
    """Key and value heads of a layer. Each is shared by as many query heads (Ainslie et al., 2023)."""
    head_size: int
    rotary_size: int
    """Leading elements of a head that turn with the position."""
    scale: float
    """Factor applied to the products of queries and keys."""
    soft_cap: float | None
    """Bound of the scores: s becomes cap * tanh(s / cap), as in Gemma 2."""
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Attention settings of a single layer."""

    window: int | None
    """Tokens that a query sees, itself included. None: all before it."""
    angles: tuple[Floats, Floats]
    """Cosines and sines [positions, rotary/2] each."""
    query_norm: Tensor | None = None
    """Weight [head] by which query heads are normalized before they turn (Henry et al., 2020)."""
    key_norm: Tensor | None = None


class PagedAttention(Protocol):
    """The KV cache of a model, and attention of each layer over it."""

    block_count: int

    @property
    def byte_count(self) -> int:
        """Bytes of the keys and values of all layers."""
        ...

    def begin(self, arrays: StepArrays) -> None:
        """Takes in the step whose tokens attend next."""
        ...

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Attention of the step's tokens, each to itself and those before it in its sequence.

        `projected` [tokens, (query, key and value heads) x head] may be changed; its keys and values go to the cache.
        The result is [tokens, query heads x head].
        """
        ...

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks whose content is not to be trusted: what is masked is still multiplied by zero."""
        ...

    def release(self) -> None:
        """Gives the memory back, with all that is in it, until `allocate`."""
        ...

    def allocate(self) -> None:
        """Takes memory for all layers. It is empty."""
        ...
