"""The encoder common to all families: embeddings, and layers in which every token sees every other."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.torch.attention.kernel_whole_attention import KernelWholeAttention
from headrace.engine.torch.attention.torch_whole_attention import TorchWholeAttention
from headrace.engine.torch.attention.whole_attention import WholeAttention
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.encoder.encoder_reader import EncoderReader
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators


class Encoder:
    """An encoder with its weights. Holds no request state."""

    @torch.inference_mode()
    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Raises InvalidCheckpoint if `weights` do not fit."""
        reader = EncoderReader(config, weights, operators, dtype, device)
        self._config = config
        self._operators = operators
        self._device = device
        self._words = reader.word_embeddings()
        self._positions = reader.position_embeddings()
        self._norm = reader.embedding_norm()
        self._attention = self._build_attention(reader)
        self._layers = [reader.layer(index) for index in range(config.layer_count)]
        self.parameter_count = reader.parameter_count
        self.byte_count = reader.byte_count

    @torch.inference_mode()
    def __call__(self, inputs: Sequence[tuple[int, ...]]) -> list[NDArray[np.float32]]:
        """Computes the final hidden states, fp32 [tokens, hidden] in host memory, of each input, which has at least one
        token.

        There is no padding: each input is computed from its own tokens alone. On a CPU the result is batch-invariant:
        either the operators are, or each input is computed alone.
        """
        with on_device(self._device):
            if self._device.type == "cpu" and not self._operators.is_batch_invariant:
                return [self._compute([tokens])[0].float().numpy() for tokens in inputs]
            return [hidden.float().cpu().numpy() for hidden in self._compute(inputs)]

    def _compute(self, inputs: Sequence[tuple[int, ...]]) -> list[Tensor]:
        order = sorted(range(len(inputs)), key=lambda index: len(inputs[index]))
        ordered = [inputs[index] for index in order]
        lengths = [len(tokens) for tokens in ordered]
        self._attention.begin(lengths)
        hidden = self._norm(self._embed(ordered))
        for layer in self._layers:
            hidden = layer(hidden, self._attention)
        parts = zip(order, torch.split(hidden, lengths), strict=True)
        return [part for _, part in sorted(parts, key=lambda pair: pair[0])]

    def _embed(self, inputs: Sequence[tuple[int, ...]]) -> Tensor:
        token_ids = self._tensor([token_id for tokens in inputs for token_id in tokens])
        positions = self._tensor([position for tokens in inputs for position in self._config.positions(tokens)])
        return functional.embedding(token_ids, self._words) + functional.embedding(positions, self._positions)

    def _build_attention(self, reader: EncoderReader) -> WholeAttention:
        config, bias = self._config, reader.relative_bias()
        if isinstance(self._operators, KernelOperators):
            context = self._operators.context
            return KernelWholeAttention(context, config.head_count, config.head_size, bias, config.max_model_length)
        return TorchWholeAttention(config.head_count, config.head_size, bias)

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
