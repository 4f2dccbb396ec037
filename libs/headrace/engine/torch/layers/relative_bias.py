"""A bias per head and per distance between two tokens (Raffel et al., 2019)."""

import math

import torch
from torch import Tensor

FARTHEST = 128
"""Distances from this one on share one bucket."""


class RelativeBias:
    """Gives short distances a bucket each and long ones logarithmic buckets; each direction has half of them."""

    def __init__(self, table: Tensor) -> None:
        """`table` is [buckets, heads]."""
        self._table = table

    def at_distances(self, distances: Tensor) -> Tensor:
        """Maps signed distances (key position minus query position), int64 [distances], to biases added to the scores:
        [heads, distances]."""
        return self._table[self._buckets(distances.to(self._table.device))].T.contiguous()

    def _buckets(self, distances: Tensor) -> Tensor:
        """Maps distances, each key position minus query position, to buckets."""
        half = len(self._table) // 2
        exact = half // 2
        far = distances.abs()
        share = torch.log(far.clamp_min(1).float() / exact) / math.log(FARTHEST / exact)
        logarithmic = exact + (share * (half - exact)).long()
        return half * (distances > 0) + far.where(far < exact, logarithmic.clamp_max(half - 1))
