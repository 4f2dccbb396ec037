"""Normalization of queries and keys (Henry et al., 2020), as in Qwen3 and Gemma 3."""

from torch import Tensor

from headrace.engine.torch.layers.rms_norm import RmsNorm


class HeadNorm:
    """Gives each query and key head a root mean square of one, times a weight. Values stay as they are."""

    def __init__(self, norm: RmsNorm, head_count: int) -> None:
        """`norm` has a weight [head] for each of the `head_count` query and key heads, in their order."""
        self._norm = norm
        self._head_count = head_count

    def __call__(self, heads: Tensor) -> Tensor:
        """Changes `heads` [tokens, query, key and value heads, head] in place.

        The copy makes the lengths a reduction over contiguous rows, for which torch has one kernel whatever their
        number.
        """
        normed = heads[:, : self._head_count]
        normed.copy_(self._norm(normed.contiguous()))
        return heads
