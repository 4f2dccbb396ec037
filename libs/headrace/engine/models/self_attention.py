"""Causal self-attention with grouped queries (Ainslie et al., 2023) and rotary positions."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.attention.gather import Scoring, attend
from headrace.engine.attention.kv_cache import KvLayer
from headrace.engine.layers.head_norm import HeadNorm
from headrace.engine.layers.linear import Linear
from headrace.engine.layers.rotary import Rotation, rotate
from headrace.engine.models.step_tensors import StepTensors


@dataclass(frozen=True, slots=True)
class SelfAttention:
    qkv: Linear
    """Query, key and value projections as one product."""
    output: Linear
    head_norm: HeadNorm | None
    scoring: Scoring
    window: int | None
    """Tokens that a query sees, itself included."""
    head_count: int
    kv_head_count: int
    head_size: int

    def __call__(self, inputs: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        """[tokens, hidden] to the same shape. Writes the tokens' keys and values first."""
        return self.output(self._attend(inputs, rotation, kv_layer, step))

    def add(self, inputs: Tensor, residual: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        """The same plus `residual` [tokens, hidden]."""
        return self.output.add(self._attend(inputs, rotation, kv_layer, step), residual)

    def _attend(self, inputs: Tensor, rotation: Rotation, kv_layer: KvLayer, step: StepTensors) -> Tensor:
        heads = self.qkv(inputs).view(-1, self.head_count + 2 * self.kv_head_count, self.head_size)
        if self.head_norm is not None:
            heads = self.head_norm(heads)
        rotated = rotate(heads, rotation)
        kv_layer.write(step.write_rows, rotated[:, self.head_count :])
        return attend(rotated[:, : self.head_count], kv_layer, step.groups[self.window], self.scoring)
