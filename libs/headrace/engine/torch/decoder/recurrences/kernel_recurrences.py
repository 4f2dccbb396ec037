"""Recurrences on the CPU kernels."""

import torch
from torch import Tensor

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.structures import Convolution, Recurrence
from headrace.engine.memory.aligned import address
from headrace.engine.torch.decoder.recurrences.causal_convolution import convolve
from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep
from headrace.engine.torch.operators.floats import floats

MAX_TAPS = 16
"""Taps of a convolution that the kernels take. Torch's has the same bits."""


class KernelRecurrences:
    """Implements the Protocol of `recurrences.py` with the CPU kernels, which move states in their slots: the same bits
    on every processor. Those of memories are not torch's, which rounds elsewhere."""

    def __init__(self, context: KernelContext) -> None:
        self._context = context

    def run_delta_rule(self, inputs: DeltaInputs, layer: StateLayer, step: StateStep) -> Tensor:
        parts = inputs.queries, inputs.keys, inputs.values, inputs.kept, inputs.corrections
        return self._recur(parts, layer, step, corrects=True)

    def scan_space(self, inputs: SpaceInputs, layer: StateLayer, step: StateStep) -> Tensor:
        parts = inputs.queries, inputs.keys, inputs.values, inputs.kept, inputs.steps
        return self._recur(parts, layer, step, corrects=False)

    def convolve(self, inputs: Tensor, taps: Tensor, bias: Tensor | None, layer: StateLayer, step: StateStep) -> Tensor:
        if len(taps) > MAX_TAPS:
            return convolve(inputs, taps, bias, layer, step)
        (row_count, channel_count), tails = inputs.shape, layer.tails
        # Rows may be parts of wider ones.
        if inputs.stride(1) != 1 or inputs.stride(0) < channel_count:
            inputs = inputs.contiguous()
        outputs = torch.empty(row_count, channel_count)
        shift = None if bias is None else bias.data_ptr()
        places = inputs.data_ptr(), taps.data_ptr(), shift, outputs.data_ptr(), tails.data_ptr(), address(step.numbers)
        sizes = len(taps), channel_count, inputs.stride(0)
        self._context.convolve(Convolution(*places, row_count, len(step.numbers), len(tails), *sizes))
        return outputs

    def _recur(self, parts: tuple[Tensor, ...], layer: StateLayer, step: StateStep, *, corrects: bool) -> Tensor:
        """`parts` are queries, keys, values, kept shares and rates, as `Recurrence` in `kernels/src/abi.h` has them."""
        kept = tuple(map(floats, parts))
        queries, values = kept[0], kept[2]
        outputs, memories = torch.empty_like(values), layer.memories
        places = [part.data_ptr() for part in (*kept, outputs, memories)]
        counts = len(values), len(step.numbers), len(memories)
        sizes = values.shape[1], queries.shape[1], queries.shape[2], values.shape[2]
        self._context.recur(Recurrence(*places, address(step.numbers), *counts, *sizes, corrects))
        return outputs
