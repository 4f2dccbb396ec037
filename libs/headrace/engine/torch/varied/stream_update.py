"""Prediction of all streams before a layer, and their correction behind it (AltUp, Baykal et al., 2023)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class StreamUpdate:
    active: int
    """Stream that the layer computes."""
    router_norm: RowNorm
    router: Linear
    bound: Callable[[Tensor], Tensor]
    """Hyperbolic tangent of each number."""
    prediction: Linear
    """Product [streams x streams, streams], with the shares of one predicted stream after the other."""
    correction: Linear
    """Product [streams, streams]."""

    def predict(self, streams: Tensor) -> Tensor:
        """Maps [streams, tokens, hidden] to the same shape: sums of streams, one by one, so that no row depends on
        others."""
        shares = self.prediction(self._weights(streams[self.active])).unsqueeze(-1)
        parts = torch.split(shares, len(streams), dim=1)
        return torch.stack([_sum(stream, streams, part) for stream, part in zip(streams, parts, strict=True)])

    def correct(self, predictions: Tensor, computed: Tensor) -> Tensor:
        """Adds to predictions [streams, tokens, hidden] a share of how far the computed stream [tokens, hidden] is from
        its own."""
        shares = (self.correction(self._weights(computed)) + 1).T.unsqueeze(-1)
        return predictions + (computed - predictions[self.active]) * shares

    def _weights(self, hidden: Tensor) -> Tensor:
        return self.bound(self.router(self.router_norm(hidden)))


def _sum(total: Tensor, streams: Tensor, shares: Tensor) -> Tensor:
    """Adds streams [streams, tokens, hidden] times their shares [tokens, streams, 1] to `total` [tokens, hidden]."""
    for number, stream in enumerate(streams):
        total = total + stream * shares[:, number]
    return total
