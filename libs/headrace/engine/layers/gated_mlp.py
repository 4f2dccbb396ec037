"""The gated feed-forward block of Llama: SwiGLU (Shazeer, 2020)."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.layers.linear import Linear, OneDnnLinear, build_linear, has_onednn


class GatedMlp(Protocol):
    def __call__(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Both [rows, hidden]. Returns their block's output plus `residual`."""
        ...


def build_gated_mlp(gate: Tensor, up: Tensor, down: Tensor, biases: tuple[Tensor, Tensor, Tensor] | None) -> GatedMlp:
    """Weights are [out, in]; `biases` in the order of the weights.

    With several threads, torch's SiLU may split a row anywhere, and the last elements of a part go through another
    exponential than the rest: results would depend on the row count. The fused one has no such seams, but costs a
    call more.
    """
    gate_bias, up_bias, down_bias = biases or (None, None, None)
    if has_onednn(gate) and torch.get_num_threads() > 1:
        return FusedGatedMlp(OneDnnLinear(gate, gate_bias), OneDnnLinear(up, up_bias), OneDnnLinear(down, down_bias))
    gate_up_bias = None if gate_bias is None or up_bias is None else torch.cat([gate_bias, up_bias])
    return PlainGatedMlp(build_linear(torch.cat([gate, up]), gate_up_bias), build_linear(down, down_bias))


@dataclass(frozen=True, slots=True)
class PlainGatedMlp:
    gate_up: Linear
    """Gate and up projections as one product: hidden to 2 x intermediate."""
    down: Linear

    def __call__(self, inputs: Tensor, residual: Tensor) -> Tensor:
        gate, up = self.gate_up(inputs).chunk(2, dim=-1)
        return self.down.add(functional.silu(gate).mul_(up), residual)


@dataclass(frozen=True, slots=True)
class FusedGatedMlp:
    """Activation, gating and residual as epilogues of the three products."""

    gate: OneDnnLinear
    up: OneDnnLinear
    down: OneDnnLinear

    def __call__(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self.down.add(self.up.multiply(inputs, self.gate.swish(inputs)), residual)
