"""A decoder's tensors in a checkpoint saved without its head, whose tensor names therefore lack the model prefix."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight

PREFIX = "model."


class HeadlessWeights:
    """Reads `model.norm.weight` from `norm.weight` if the checkpoint has that instead. See WeightSource."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._prefix = PREFIX if f"{PREFIX}embed_tokens.weight" in weights else ""

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return self._weights.read(self._own(name), shape, dtype, device)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        return self._weights.matrix(self._own(name), shape, dtype, device)

    def _own(self, name: str) -> str:
        return self._prefix + name.removeprefix(PREFIX)
