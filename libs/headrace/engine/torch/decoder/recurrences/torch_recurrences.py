"""Recurrences through torch, on any device."""

from torch import Tensor

from headrace.engine.torch.decoder.recurrences.causal_convolution import convolve
from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs, run_delta_rule
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs, scan_space
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep


class TorchRecurrences:
    """Implements the Protocol of `recurrences.py` with torch."""

    def run_delta_rule(self, inputs: DeltaInputs, layer: StateLayer, step: StateStep) -> Tensor:
        return run_delta_rule(inputs, layer, step.moves)

    def scan_space(self, inputs: SpaceInputs, layer: StateLayer, step: StateStep) -> Tensor:
        return scan_space(inputs, layer, step.moves)

    def convolve(self, inputs: Tensor, taps: Tensor, bias: Tensor | None, layer: StateLayer, step: StateStep) -> Tensor:
        return convolve(inputs, taps, bias, layer, step)
