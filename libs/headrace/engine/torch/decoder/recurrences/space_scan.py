"""The recurrence of a state space, token by token (Mamba-2: Dao and Gu, 2024).

A head's memory S [state, values] takes key B, value x, step size t and kept share a of each token: S = a S + B (t x),
and the output for query C is C S. Tokens are taken in order, as in `delta_rule.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.decoder.recurrences.token_order import run_in_order, share_heads
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateMove


@dataclass(frozen=True, slots=True)
class SpaceInputs:
    """Inputs of all tokens of a step, fp32."""

    queries: Tensor
    """Products that read the memory [tokens, groups, state]. Consecutive heads share one."""
    keys: Tensor
    """Products by which values are taken in [tokens, groups, state]."""
    values: Tensor
    """Inputs [tokens, heads, values]."""
    steps: Tensor
    """Step sizes [tokens, heads]."""
    kept: Tensor
    """Share of the memory that a token leaves [tokens, heads]."""


def scan_space(inputs: SpaceInputs, layer: StateLayer, moves: Sequence[StateMove]) -> Tensor:
    """Returns the outputs fp32 [tokens, heads, values], and moves the memories of all spans behind their tokens."""
    taken = inputs.values * inputs.steps[:, :, None]
    queries, keys = (share_heads(each, taken.shape[1]) for each in (inputs.queries, inputs.keys))
    tokens = list(
        zip(
            queries.unsqueeze(2).unbind(),
            keys.unsqueeze(3).unbind(),
            taken.unsqueeze(2).unbind(),
            inputs.kept[:, :, None, None].unbind(),
            strict=True,
        )
    )
    return run_in_order(tokens, _advance, taken, layer, moves)


def _advance(memory: Tensor, query: Tensor, key: Tensor, taken: Tensor, kept: Tensor) -> Tensor:
    """Moves a memory [heads, state, values] behind one token, and returns the token's output [heads, 1, values]."""
    memory.mul_(kept)
    memory.addcmul_(key.clone(), taken.clone())
    return torch.bmm(query.clone(), memory)
