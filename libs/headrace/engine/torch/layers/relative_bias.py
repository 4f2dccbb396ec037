"""A bias for each head and each distance between two tokens (Raffel et al., 2019)."""

import math

import torch
from torch import Tensor

FARTHEST = 128
"""Distances from here on share one bucket."""


class RelativeBias:
    """Near distances have a bucket each, farther ones share them on a logarithmic scale; one half for each side."""

    def __init__(self, table: Tensor) -> None:
        """`table` is [buckets, heads]."""
        self._table = table

    def at_distances(self, distances: Tensor) -> Tensor:
        """Maps distances of keys behind their queries, int64 [distances], to the bias added to scores: [heads,
        distances]."""
        return self._table[self._buckets(distances.to(self._table.device))].T.contiguous()

    def _buckets(self, distances: Tensor) -> Tensor:
        """Buckets of distances, each key place minus query place."""
        half = len(self._table) // 2
        exact = half // 2
        far = distances.abs()
        share = torch.log(far.clamp_min(1).float() / exact) / math.log(FARTHEST / exact)
        logarithmic = exact + (share * (half - exact)).long()
        return half * (distances > 0) + far.where(far < exact, logarithmic.clamp_max(half - 1))
