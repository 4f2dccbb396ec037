"""The gated feed-forward block: SwiGLU and GeGLU (Shazeer, 2020)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.layers.activation import Activation
from headrace.engine.layers.linear import Linear, OneDnnLinear, build_linear, has_onednn
from headrace.engine.quantization.quantized_matrix import Weight


class GatedMlp(Protocol):
    def __call__(self, inputs: Tensor) -> Tensor:
        """[rows, hidden] to the same shape."""
        ...

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """The block's output plus `residual` [rows, hidden]."""
        ...


def build_gated_mlp(
    gate_up: Weight, down: Weight, gate_up_bias: Tensor | None, down_bias: Tensor | None, activation: Activation
) -> GatedMlp:
    """`gate_up` is [2 x intermediate, hidden], gate before up, and `down` is [hidden, intermediate].

    With several threads, torch's SiLU may split a row anywhere, and the last elements of a part go through another
    exponential than the rest: results would depend on the row count. The fused one has no such seams, but costs a
    call more.
    """
    if activation == "silu" and has_onednn(gate_up) and has_onednn(down) and torch.get_num_threads() > 1:
        gate, up = gate_up.chunk(2)
        gate_bias, up_bias = (None, None) if gate_up_bias is None else gate_up_bias.chunk(2)
        return FusedGatedMlp(OneDnnLinear(gate, gate_bias), OneDnnLinear(up, up_bias), OneDnnLinear(down, down_bias))
    activate = gelu_tanh if activation == "gelu_tanh" else silu
    return PlainGatedMlp(build_linear(gate_up, gate_up_bias), build_linear(down, down_bias), activate)


@dataclass(frozen=True, slots=True)
class PlainGatedMlp:
    gate_up: Linear
    """Gate and up projections as one product: hidden to 2 x intermediate."""
    down: Linear
    activate: Callable[[Tensor], Tensor]

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.down(self._gate(inputs))

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self.down.add(self._gate(inputs), residual)

    def _gate(self, inputs: Tensor) -> Tensor:
        gate, up = self.gate_up(inputs).chunk(2, dim=-1)
        return self.activate(gate).mul_(up)


@dataclass(frozen=True, slots=True)
class FusedGatedMlp:
    """Activation, gating and residual as epilogues of the three products."""

    gate: OneDnnLinear
    up: OneDnnLinear
    down: OneDnnLinear

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.down(self.up.multiply(inputs, self.gate.swish(inputs)))

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self.down.add(self.up.multiply(inputs, self.gate.swish(inputs)), residual)


PARALLEL_GRAIN = 32_768
"""Elements from which on torch splits an elementwise operation between threads."""


def silu(inputs: Tensor) -> Tensor:
    """x times sigmoid(x) for `inputs` [rows, size], in parts of whole rows that torch does not split any further."""
    rows = max(1, PARALLEL_GRAIN // inputs.shape[1])
    if len(inputs) <= rows or inputs.device.type != "cpu" or torch.get_num_threads() == 1:
        return functional.silu(inputs)
    return torch.cat([functional.silu(part) for part in torch.split(inputs, rows)])


def gelu_tanh(inputs: Tensor) -> Tensor:
    """The tanh approximation of GELU (Hendrycks and Gimpel, 2016).

    torch's own sends the last elements through another tanh than the rest, so on the CPU in fp32 it is built from
    operations that treat all elements alike.
    """
    if inputs.device.type != "cpu" or inputs.dtype != torch.float32:
        return functional.gelu(inputs, approximate="tanh")
    inner = (inputs * inputs).mul_(inputs).mul_(0.044715).add_(inputs).mul_(math.sqrt(2 / math.pi))
    return inner.tanh_().add_(1.0).mul_(inputs).mul_(0.5)
