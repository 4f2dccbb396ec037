"""Inputs of each layer, from the tokens and their embeddings (Gemma 3n, 2025)."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.layers.input_config import InputConfig
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class TokenInputs:
    """Inputs of all layers for the tokens of a step."""

    config: InputConfig
    table: Tensor
    """Rows [vocabulary, layers x size] that tokens look up, in the checkpoint's precision."""
    projection: Linear
    norm: RowNorm
    """Norm of what the product gives one layer."""

    def __call__(self, token_ids: Tensor, embedded: Tensor) -> list[Tensor]:
        """Maps tokens [tokens] and their embeddings [tokens, hidden] to the input [tokens, size] of each layer."""
        size, row_count = self.config.size, len(token_ids)
        projected = (self.projection(embedded) * embedded.shape[1] ** -0.5).reshape(-1, size)
        known = token_ids.where(token_ids < self.config.vocabulary_size, 0)
        looked_up = functional.embedding(known, self.table).to(embedded.dtype).reshape(-1, size) * size**0.5
        inputs = (self.norm(projected) + looked_up) * 2**-0.5
        return [part.contiguous() for part in inputs.view(row_count, -1, size).unbind(1)]
