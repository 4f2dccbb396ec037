"""The short convolution between two gates of LFM2 (Liquid AI, 2025)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.states.stateful_attention import states_of
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class GatedConvolution:
    """Stands where attention stands in other layers."""

    index: int
    """Number of the layer among the layers with a state."""
    inputs: Linear
    """Gate before the convolution, gate behind it, and what is convolved."""
    taps: Tensor
    """Weights fp32 [taps, channels], the oldest token first."""
    bias: Tensor | None
    recurrences: Recurrences
    output: Linear

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape, and continues the sequences' tails."""
        return self.output(self._mix(inputs, attention))

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]."""
        return self.output.add_to_residual(self._mix(inputs, attention), residual)

    def _mix(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        states = states_of(attention)
        before, behind, values = self.inputs(inputs).float().chunk(3, dim=1)
        layer, convolve = states.layer(self.index), self.recurrences.convolve
        convolved = convolve(before * values, self.taps, self.bias, layer, states.step)
        return (behind * convolved).to(inputs.dtype)
