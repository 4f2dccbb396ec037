"""Query, key and value projections, each head of which is normalized."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class NormedHeads:
    """Projections as one product, with the norms that rotation comes after (Henry et al., 2020), also of values."""

    linear: Linear
    """Queries, then keys, then values. A layer may lack values, or both."""
    query_size: int
    """Elements of all query heads."""
    kv_size: int
    """Elements of all key heads. 0: the layer reads the keys and values of another."""
    query_norm: RowNorm
    key_norm: RowNorm
    value_norm: RowNorm
    head_size: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to [rows, heads x head]: queries, keys and values, or queries alone. Without a product
        of their own, values are what keys are before their norm."""
        projected = self.linear(inputs)
        queries = self._normed(projected[:, : self.query_size], self.query_norm)
        if not self.kv_size:
            return queries
        keys, values = projected[:, self.query_size :][:, : self.kv_size], projected[:, -self.kv_size :]
        return torch.cat([queries, self._normed(keys, self.key_norm), self._normed(values, self.value_norm)], dim=1)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)

    def _normed(self, heads: Tensor, norm: RowNorm) -> Tensor:
        return norm(heads.reshape(-1, self.head_size)).view(heads.shape)
