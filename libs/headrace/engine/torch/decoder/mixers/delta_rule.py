"""The gated delta rule, token by token (Yang et al., Gated Delta Networks, 2024).

A head's memory S [keys, values] takes key k, value v, kept share a and correction rate b of each token: S = a S, then
S = S + k (b (v - k S)), and the output for query q is q S. Tokens of a sequence are taken in order, one at a time, by
operations on operands of one shape in newly allocated memory: the bits depend neither on chunks nor on the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateMove


@dataclass(frozen=True, slots=True)
class DeltaInputs:
    """Inputs of all tokens of a step, fp32."""

    queries: Tensor
    """Normalized queries [tokens, heads, keys]."""
    keys: Tensor
    """Normalized keys [tokens, heads, keys]."""
    values: Tensor
    """Values [tokens, heads, values]."""
    kept: Tensor
    """Share of the memory that a token leaves [tokens, heads]."""
    corrections: Tensor
    """Rates at which a token replaces what its key recalls [tokens, heads]."""


def run_delta_rule(inputs: DeltaInputs, layer: StateLayer, moves: Sequence[StateMove]) -> Tensor:
    """Returns the outputs fp32 [tokens, heads, values], and moves the memories of all spans behind their tokens."""
    outputs = torch.empty_like(inputs.values)
    for move in moves:
        memory = layer.memory(move.source)
        for number in range(move.token_count):
            row = move.first_row + number
            outputs[row] = _advance(memory, inputs, row)
            if (slot := move.captures.get(number + 1)) is not None:
                layer.memories[slot] = memory
        layer.memories[move.target] = memory
    return outputs


def _advance(memory: Tensor, inputs: DeltaInputs, row: int) -> Tensor:
    """Moves a memory [heads, keys, values] behind one token, and returns the token's output [heads, values]."""
    query, key = inputs.queries[row].unsqueeze(1).clone(), inputs.keys[row].unsqueeze(1).clone()
    memory.mul_(inputs.kept[row].view(-1, 1, 1))
    recalled = torch.bmm(key, memory)
    correction = (inputs.values[row].unsqueeze(1) - recalled) * inputs.corrections[row].view(-1, 1, 1)
    memory.addcmul_(key.transpose(1, 2), correction)
    return torch.bmm(query, memory).squeeze(1)
