"""A layer that computes one of several streams of hidden states."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.operators.operators import RowNorm
from headrace.engine.torch.varied.input_block import InputBlock
from headrace.engine.torch.varied.low_rank_residual import LowRankResidual
from headrace.engine.torch.varied.stream_update import StreamUpdate

HALF = 2**-0.5
"""Factor of the sum of two residuals."""


@dataclass(frozen=True, slots=True)
class StreamLayer:
    """Layer of Gemma 3n: predicts all streams, computes the active one, corrects all, and adds its own input to all but
    the first."""

    update: StreamUpdate
    attention_norm: RowNorm
    low_rank: LowRankResidual
    attention: Callable[[Tensor, PagedAttention], Tensor]
    post_attention_norm: RowNorm
    mlp_norm: RowNorm
    mlp: Mlp
    post_mlp_norm: RowNorm
    output_scale: Tensor | None
    """Factors [hidden] of the computed stream before it meets the layer's own input. None: one."""
    block: InputBlock
    own: Tensor | None = None
    """Input [tokens, size] of the layer in one step, see `fed`."""

    def __call__(self, hidden: Tensor, attention: PagedAttention) -> Tensor:
        """Maps streams [streams, tokens, hidden] to the same shape."""
        predicted = self.update.predict(hidden)
        streams = self.update.correct(predicted, self._compute(predicted[self.update.active], attention))
        if self.own is None:
            return streams
        active = streams[self.update.active]
        added = self.block(active if self.output_scale is None else active * self.output_scale, self.own)
        return torch.cat([streams[:1], streams[1:] + added])

    def _compute(self, active: Tensor, attention: PagedAttention) -> Tensor:
        """Maps the active stream [tokens, hidden] to the same shape."""
        normalized = self.attention_norm(active)
        attended = active + self.post_attention_norm(self.attention(normalized, attention))
        computed = (attended + self.low_rank(normalized)) * HALF
        return computed + self.post_mlp_norm(self.mlp(self.mlp_norm(computed)))
