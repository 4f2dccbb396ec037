"""The block of Qwen3-Next and Qwen3.5 around the gated delta rule (Yang et al., 2024)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.states.gated_delta import GatedDelta
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.mixers.exact_functions import exp, sigmoid, softplus
from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.states.stateful_attention import states_of
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Stands where attention stands in other layers."""

    index: int
    """Number of the layer among the layers with a state."""
    facts: GatedDelta
    inputs: Linear
    """Queries, keys, values, and gates of the output."""
    rates: Linear
    """Rates of correction and of forgetting of each head."""
    taps: Tensor
    """Weights fp32 [taps, channels] of the convolution, the oldest token first."""
    rate_bias: Tensor
    """Numbers fp32 [value heads] added to rates of forgetting."""
    decay: Tensor
    """Factors fp32 [value heads] of these rates."""
    query_norm: RowNorm
    """Makes queries of unit length, divided by the square root of their size."""
    key_norm: RowNorm
    """Makes keys of unit length."""
    norm: RowNorm
    """Norm of each head's output."""
    activate: Callable[[Tensor], Tensor]
    """SiLU of [rows, size] numbers."""
    recurrences: Recurrences
    output: Linear

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape, and continues the sequences' states."""
        return self.output(self._mix(inputs, attention))

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]."""
        return self.output.add_to_residual(self._mix(inputs, attention), residual)

    def _mix(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        facts, states = self.facts, states_of(attention)
        layer = states.layer(self.index)
        projected = self.inputs(inputs).float()
        joined, gates = torch.split(projected, [facts.channels, facts.value_row_count], dim=1)
        convolved = self.activate(self.recurrences.convolve(joined, self.taps, None, layer, states.step))
        heads = self._heads(convolved, self.rates(inputs).float())
        outputs = self.recurrences.run_delta_rule(heads, layer, states.step)
        normalized = self.norm(outputs.reshape(-1, facts.value_size)).view(len(inputs), -1)
        return (normalized * self.activate(gates.contiguous())).to(inputs.dtype)

    def _heads(self, convolved: Tensor, rates: Tensor) -> DeltaInputs:
        """Splits rows into heads. Consecutive value heads share a query and a key, or have a copy of their own where
        they are elsewhere."""
        facts, count = self.facts, len(convolved)
        sizes = [facts.key_row_count, facts.key_row_count, facts.value_row_count]
        queries, keys, values = torch.split(convolved, sizes, dim=1)
        corrections, forgettings = rates.chunk(2, dim=1)
        return DeltaInputs(
            queries=self._normalized(queries, self.query_norm),
            keys=self._normalized(keys, self.key_norm),
            values=values.reshape(count, -1, facts.value_size),
            kept=exp(-self.decay * softplus(forgettings + self.rate_bias)),
            corrections=sigmoid(corrections),
        )

    def _normalized(self, rows: Tensor, norm: RowNorm) -> Tensor:
        """Normalizes queries or keys of all heads: [tokens, key heads, keys], or [tokens, value heads, keys] of tiled
        heads."""
        facts = self.facts
        heads = norm(rows.reshape(-1, facts.key_size)).view(len(rows), -1, facts.key_size)
        return heads.repeat(1, facts.value_head_count // facts.key_head_count, 1) if facts.tiles_heads else heads
