"""The recurrence of a state space, token by token (Mamba-2: Dao and Gu, 2024).

A head's memory S [state, values] takes key B, value x, step size t and kept share a of each token: S = a S + B (t x),
and the output for query C is C S. Tokens are taken in order, as in `delta_rule.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateMove


@dataclass(frozen=True, slots=True)
class SpaceInputs:
    """Inputs of all tokens of a step, fp32."""

    queries: Tensor
    """Products that read the memory [tokens, heads, state]."""
    keys: Tensor
    """Products by which values are taken in [tokens, heads, state]."""
    values: Tensor
    """Inputs [tokens, heads, values]."""
    steps: Tensor
    """Step sizes [tokens, heads]."""
    kept: Tensor
    """Share of the memory that a token leaves [tokens, heads]."""


def scan_space(inputs: SpaceInputs, layer: StateLayer, moves: Sequence[StateMove]) -> Tensor:
    """Returns the outputs fp32 [tokens, heads, values], and moves the memories of all spans behind their tokens."""
    outputs, taken = torch.empty_like(inputs.values), inputs.values * inputs.steps[:, :, None]
    for move in moves:
        memory = layer.memory(move.source)
        for number in range(move.token_count):
            row = move.first_row + number
            outputs[row] = _advance(memory, inputs, taken[row].clone(), row)
            if (slot := move.captures.get(number + 1)) is not None:
                layer.memories[slot] = memory
        layer.memories[move.target] = memory
    return outputs


def _advance(memory: Tensor, inputs: SpaceInputs, taken: Tensor, row: int) -> Tensor:
    """Moves a memory [heads, state, values] behind one token, and returns the token's output [heads, values]."""
    query, key = inputs.queries[row].unsqueeze(1).clone(), inputs.keys[row].unsqueeze(2).clone()
    memory.mul_(inputs.kept[row].view(-1, 1, 1))
    memory.addcmul_(key, taken.unsqueeze(1))
    return torch.bmm(query, memory).squeeze(1)
