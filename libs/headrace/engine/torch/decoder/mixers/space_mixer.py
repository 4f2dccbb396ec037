"""The block of Mamba-2 around its state space (Dao and Gu, Transformers are SSMs, 2024)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.states.state_space import StateSpace
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.mixers.exact_functions import exp, softplus
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs
from headrace.engine.torch.decoder.states.stateful_attention import states_of
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class SpaceMixer:
    """Stands where attention stands in other layers."""

    index: int
    """Number of the layer among the layers with a state."""
    facts: StateSpace
    inputs: Linear
    """Gates of the output, inputs, the two products of all groups, and step sizes of all heads."""
    taps: Tensor
    """Weights fp32 [taps, channels] of the convolution, the oldest token first."""
    bias: Tensor | None
    step_bias: Tensor
    """Numbers fp32 [heads] added to step sizes."""
    decay: Tensor
    """Factors fp32 [heads] of step sizes in the decay."""
    skip: Tensor
    """Factors fp32 [heads] of the inputs that outputs have beside the state."""
    unit_norm: RowNorm
    """Norm of the outputs of a group of heads, without weights."""
    norm: Tensor | None
    """Weights fp32 [inner] of that norm. None: there is no norm."""
    activate: Callable[[Tensor], Tensor]
    """SiLU of [rows, size] numbers."""
    recurrences: Recurrences
    output: Linear

    def __call__(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        """Maps [tokens, hidden] to the same shape, and continues the sequences' states."""
        return self.output(self._mix(inputs, attention))

    def add_to_residual(self, inputs: Tensor, residual: Tensor, attention: PagedAttention) -> Tensor:
        """Computes the block's output plus `residual` [tokens, hidden]."""
        return self.output.add_to_residual(self._mix(inputs, attention), residual)

    def _mix(self, inputs: Tensor, attention: PagedAttention) -> Tensor:
        facts, states = self.facts, states_of(attention)
        layer = states.layer(self.index)
        sizes = [facts.inner_size, facts.channels, facts.head_count]
        gates, joined, steps = torch.split(self.inputs(inputs).float(), sizes, dim=1)
        convolved = self.activate(self.recurrences.convolve(joined, self.taps, self.bias, layer, states.step))
        heads = self._heads(convolved, softplus(steps + self.step_bias))
        outputs = self.recurrences.scan_space(heads, layer, states.step) + heads.values * self.skip[:, None]
        return self._gated(outputs.flatten(1), self.activate(gates.contiguous())).to(inputs.dtype)

    def _gated(self, outputs: Tensor, gates: Tensor) -> Tensor:
        """Multiplies outputs [tokens, inner] by gates, and normalizes each group of heads."""
        match self.facts.norm:
            case "behind_gates":
                return self._normalized(outputs * gates)
            case "before_gates":
                return self._normalized(outputs) * gates
            case "none":
                return outputs * gates

    def _normalized(self, outputs: Tensor) -> Tensor:
        groups = self.unit_norm(outputs.view(len(outputs) * self.facts.group_count, -1)).view(outputs.shape)
        return groups if self.norm is None else groups * self.norm

    def _heads(self, convolved: Tensor, steps: Tensor) -> SpaceInputs:
        """Splits rows into heads. Consecutive heads of a group share its products."""
        facts, count = self.facts, len(convolved)
        values, keys, queries = torch.split(convolved, [facts.inner_size, facts.group_size, facts.group_size], dim=1)
        return SpaceInputs(
            queries=queries.reshape(count, facts.group_count, facts.state_size),
            keys=keys.reshape(count, facts.group_count, facts.state_size),
            values=values.reshape(count, -1, facts.head_size),
            steps=steps,
            kept=exp(-self.decay * steps),
        )
