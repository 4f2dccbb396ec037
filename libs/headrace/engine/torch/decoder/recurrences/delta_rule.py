"""The gated delta rule, token by token (Yang et al., Gated Delta Networks, 2024).

A head's memory S [keys, values] takes key k, value v, kept share a and correction rate b of each token: S = a S, then
S = S + k (b (v - k S)), and the output for query q is q S. Tokens of a sequence are taken in order, one at a time, by
operations on operands of one shape in newly allocated memory: the bits depend neither on chunks nor on the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.decoder.recurrences.token_order import run_in_order, share_heads
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateMove


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """Inputs of all tokens of a step, fp32."""

    queries: Tensor
    """Normalized queries [tokens, key heads, keys]. Consecutive heads share one."""
    keys: Tensor
    """Normalized keys [tokens, key heads, keys]."""
    values: Tensor
    """Values [tokens, heads, values]."""
    kept: Tensor
    """Share of the memory that a token leaves [tokens, heads]."""
    corrections: Tensor
    """Rates at which a token replaces what its key recalls [tokens, heads]."""


def run_delta_rule(inputs: DeltaInputs, layer: StateLayer, moves: Sequence[StateMove]) -> Tensor:
    """Returns the outputs fp32 [tokens, heads, values], and moves the memories of all spans behind their tokens."""
    queries, keys = (share_heads(each, inputs.values.shape[1]) for each in (inputs.queries, inputs.keys))
    tokens = list(
        zip(
            queries.unsqueeze(2).unbind(),
            keys.unsqueeze(2).unbind(),
            inputs.values.unsqueeze(2).unbind(),
            inputs.kept[:, :, None, None].unbind(),
            inputs.corrections[:, :, None, None].unbind(),
            strict=True,
        )
    )
    return run_in_order(tokens, _advance, inputs.values, layer, moves)


def _advance(memory: Tensor, query: Tensor, key: Tensor, value: Tensor, kept: Tensor, rate: Tensor) -> Tensor:
    """Moves a memory [heads, keys, values] behind one token, and returns the token's output [heads, 1, values]."""
    key = key.clone()
    memory.mul_(kept)
    correction = (value - torch.bmm(key, memory)).mul_(rate)
    memory.addcmul_(key.transpose(1, 2), correction)
    return torch.bmm(query.clone(), memory)
