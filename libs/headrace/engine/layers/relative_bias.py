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

    def __call__(self, length: int) -> Tensor:
        """What is added to the scores of one input: [1, heads, queries, keys]."""
        places = torch.arange(length, device=self._table.device)
        buckets = self._buckets(places[None, :] - places[:, None])
        return self._table[buckets].permute(2, 0, 1)[None].contiguous()

    def _buckets(self, distances: Tensor) -> Tensor:
        """Of key place minus query place."""
        half = len(self._table) // 2
        exact = half // 2
        far = distances.abs()
        share = torch.log(far.clamp_min(1).float() / exact) / math.log(FARTHEST / exact)
        logarithmic = exact + (share * (half - exact)).long()
        return half * (distances > 0) + far.where(far < exact, logarithmic.clamp_max(half - 1))
