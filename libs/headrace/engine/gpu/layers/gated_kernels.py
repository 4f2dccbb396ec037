"""A gated feed-forward block whose products are kernels for GPUs."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.gpu.operators.triton_linear import TritonLinear
from headrace.engine.triton.split_sum import SplitRows


@dataclass(frozen=True, slots=True)
class GatedKernels:
    gate_up: TritonLinear
    down: TritonLinear
    activation: Activation

    def split(self, inputs: Tensor) -> SplitRows:
        """Maps as many rows as are tiled to the block's output, with its sums left to the next kernel."""
        return self.down.split(self.gate_up.gated(inputs, self.activation))
