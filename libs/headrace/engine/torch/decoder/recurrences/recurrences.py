"""The Protocol of what moves the states of a layer behind the tokens of a step."""

from typing import Protocol

from torch import Tensor

from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep


class Recurrences(Protocol):
    """All results depend on the text alone, to the last bit, however it is cut into steps and whatever else they have.
    Tensors are fp32."""

    def run_delta_rule(self, inputs: DeltaInputs, layer: StateLayer, step: StateStep) -> Tensor:
        """Returns the outputs [tokens, heads, values] of the gated delta rule, and moves the memories of all spans."""
        ...

    def scan_space(self, inputs: SpaceInputs, layer: StateLayer, step: StateStep) -> Tensor:
        """Returns the outputs [tokens, heads, values] of a state space, and moves the memories of all spans."""
        ...

    def convolve(self, inputs: Tensor, taps: Tensor, bias: Tensor | None, layer: StateLayer, step: StateStep) -> Tensor:
        """Convolves [tokens, channels] with `taps` [taps, channels], the oldest first, and adds `bias` [channels].
        Continues each sequence's tail, and replaces it."""
        ...
