"""Operations through torch on one row at a time: for a CPU without compiled kernels.

A BLAS chooses its kernel by the shape and alignment of its operands, and vectorized loops treat the tail differently
from the rest. With each row alone in fresh memory, shape, alignment and position never change, so results are
batch-invariant. Slow: each row reads all weights.
"""

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, plain
from headrace.engine.step.sampler import Logits
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.engine.torch.operators.operators import RowNorm
from headrace.engine.torch.operators.single_row_linear import SingleRowLinear, row_by_row
from headrace.engine.torch.operators.torch_operators import TorchOperators, one_by_one


class SingleRowOperators:
    """Implements the Protocol of `operators.py` for one row at a time."""

    is_batch_invariant = True

    def __init__(self) -> None:
        self._whole = TorchOperators()

    def linear(self, weight: Weight, bias: Tensor | None = None) -> SingleRowLinear:
        dense = plain(weight)
        # Copied because the alignment of a file's tensors in memory differs from start to start.
        return SingleRowLinear(self._whole.linear(dense.clone(memory_format=torch.contiguous_format), bias))

    def rms_norm(self, weight: Tensor, epsilon: float) -> RowNorm:
        norm = self._whole.rms_norm(weight, epsilon)
        return lambda inputs: row_by_row(norm, inputs)

    def layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> RowNorm:
        norm = self._whole.layer_norm(weight, bias, epsilon)
        return lambda inputs: row_by_row(norm, inputs)

    def activate(self, inputs: Tensor, activation: Activation) -> Tensor:
        return row_by_row(lambda row: self._whole.activate(row, activation), inputs)

    def gate(self, inputs: Tensor, activation: Activation) -> Tensor:
        return row_by_row(lambda row: self._whole.gate(row, activation), inputs)

    def soft_cap(self, inputs: Tensor, cap: float) -> Tensor:
        return row_by_row(lambda row: self._whole.soft_cap(row, cap), inputs)

    def route(self, scores: Tensor, experts: ExpertConfig, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        rows = [self._whole.route(row.clone()[None], experts, bias) for row in scores]
        shares, chosen = zip(*rows, strict=True)
        return torch.cat(shares), torch.cat(chosen)

    def experts(self, experts: ExpertMlp, activation: Activation) -> ExpertMlp:
        return one_by_one(experts, activation)

    def export(self, logits: Tensor) -> Logits:
        return self._whole.export(logits)
