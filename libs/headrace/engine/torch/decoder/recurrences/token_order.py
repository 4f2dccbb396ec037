"""Tokens of a step in the order of their texts, for recurrences."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateMove


def run_in_order(
    tokens: Sequence[tuple[Tensor, ...]],
    advance: Callable[..., Tensor],
    like: Tensor,
    layer: StateLayer,
    moves: Sequence[StateMove],
) -> Tensor:
    """Returns the outputs of all tokens, of the shape of `like` [tokens, heads, values]. `advance` moves a memory
    behind one token, whose inputs follow it, and returns the token's output [heads, 1, values]. A memory lies in newly
    allocated memory, so that nothing that it is multiplied by depends on the slot."""
    outputs = torch.empty_like(like)
    places = outputs.unsqueeze(2).unbind()
    for move in moves:
        memory, first = layer.memory(move.source), move.first_row
        for number in range(move.token_count):
            places[first + number].copy_(advance(memory, *tokens[first + number]))
            if (slot := move.captures.get(number + 1)) is not None:
                layer.memories[slot] = memory
        layer.memories[move.target] = memory
    return outputs


def share_heads(rows: Tensor, head_count: int) -> Tensor:
    """Repeats each head of [tokens, heads, size] for the consecutive heads that share it."""
    return rows.repeat_interleave(head_count // rows.shape[1], dim=1)
