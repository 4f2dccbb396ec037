"""Causal convolution of each channel over the tokens of its sequence, whatever chunks they come in."""

import torch
from torch import Tensor

from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep


def convolve(inputs: Tensor, taps: Tensor, bias: Tensor | None, layer: StateLayer, step: StateStep) -> Tensor:
    """Convolves fp32 [tokens, channels] with `taps` [taps, channels], the oldest first, and adds `bias` [channels].
    Continues each sequence's tail, and replaces it.

    Products are added one tap after the other, each operation rounded on its own, so that a token's result depends on
    no other row.
    """
    before = layer.tails.index_select(0, step.sources)
    before[step.is_new] = 0
    rows = torch.cat([before.flatten(0, 1), inputs])
    outputs = rows[step.seen[0]] * taps[0]
    for seen, weight in zip(step.seen[1:], taps[1:], strict=True):
        outputs += rows[seen] * weight
    layer.tails.index_copy_(0, step.targets, rows[step.tails])
    layer.tails.index_copy_(0, step.captured_slots, rows[step.captured_tails])
    return outputs if bias is None else outputs + bias
