"""Normalization of queries and keys (Henry et al., 2020), as in Qwen3 and Gemma 3."""

from torch import Tensor

from headrace.engine.torch.layers.rms_norm import RmsNorm


class HeadNorm:
    """Scales each query and key head to a root mean square of one, times a weight. Leaves value heads unchanged."""

    def __init__(self, norm: RmsNorm, head_count: int) -> None:
        """`norm` has one weight [head] for each of the `head_count` query and key heads, in order."""
        self._norm = norm
        self._head_count = head_count

    def __call__(self, heads: Tensor) -> Tensor:
        """Normalizes `heads` [tokens, query, key and value heads, head] in place.

        The copy makes the norm a reduction over contiguous rows, for which torch uses the same kernel whatever their
        number.
        """
        normed = heads[:, : self._head_count]
        normed.copy_(self._norm(normed.contiguous()))
        return heads
