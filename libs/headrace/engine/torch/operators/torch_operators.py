"""Operations through torch's own kernels, on any device.

A matrix library chooses its kernel by the shape, so the last bits of a row may depend on the number of rows beside it.
A request gets the same text in the same batch, and nearly always in any other. Nothing more is promised here.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.step.sampler import Logits
from headrace.engine.torch.layers.expert_choice import chosen_experts
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.engine.torch.layers.layer_norm import LayerNorm
from headrace.engine.torch.layers.rms_norm import RmsNorm
from headrace.engine.torch.operators.operators import ExpertsFactory, GateFunction, LinearFactory, NormFactory
from headrace.engine.torch.operators.torch_activation import activated, gated
from headrace.engine.torch.operators.torch_linear import TorchLinear


def one_by_one(experts: ExpertMlp, activation: Activation) -> ExpertMlp:
    """Leaves a mixture as it is: each expert computes its own rows."""
    del activation
    return experts


@dataclass(frozen=True, slots=True)
class TorchOperators:
    """Implements the Protocol of `operators.py` with torch. The fields are the operations that a device may have better
    kernels for."""

    is_batch_invariant: ClassVar[bool] = False
    linear: LinearFactory = TorchLinear
    rms_norm: NormFactory = RmsNorm
    gate: GateFunction = gated
    experts: ExpertsFactory = one_by_one

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> LayerNorm:
        return LayerNorm(weight, bias, epsilon)

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        return activated(inputs, activation)

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        return (inputs / cap).tanh_().mul_(cap)

    def route(self, scores: Tensor, experts: ExpertConfig, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        shares, chosen = chosen_experts(scores.float(), experts, bias)
        return shares.to(scores.dtype), chosen

    def export(self, logits: Tensor) -> Logits:
        return logits
