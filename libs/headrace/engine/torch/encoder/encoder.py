"""The encoder common to all families: embeddings, and layers in which tokens see those after them too."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.facts.rotary.rotary_angles import rotary_angles
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.torch.attention.kernel_whole_attention import KernelWholeAttention
from headrace.engine.torch.attention.paged_attention import HeadShape
from headrace.engine.torch.attention.torch_whole_attention import TorchWholeAttention
from headrace.engine.torch.attention.whole_attention import WholeAttention
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.encoder.encoder_reader import EncoderReader
from headrace.engine.torch.layers.relative_bias import RelativeBias
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
        self._attentions = self._build_attentions(reader, dtype)
        self._final_norm = reader.final_norm()
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
        for attention in dict.fromkeys(self._attentions):
            attention.begin(lengths)
        hidden = self._norm(self._embed(ordered))
        for layer, attention in zip(self._layers, self._attentions, strict=True):
            hidden = layer(hidden, attention)
        if self._final_norm is not None:
            hidden = self._final_norm(hidden)
        parts = zip(order, torch.split(hidden, lengths), strict=True)
        return [part for _, part in sorted(parts, key=lambda pair: pair[0])]

    def _embed(self, inputs: Sequence[tuple[int, ...]]) -> Tensor:
        token_ids = self._tensor([token_id for tokens in inputs for token_id in tokens])
        words = functional.embedding(token_ids, self._words)
        if self._positions is None:
            return words
        positions = self._tensor([position for tokens in inputs for position in self._config.positions(tokens)])
        return words + functional.embedding(positions, self._positions)

    def _build_attentions(self, reader: EncoderReader, dtype: torch.dtype) -> list[WholeAttention]:
        """Returns the attention of each layer, which layers of one kind share."""
        config, bias = self._config, reader.relative_bias()
        thetas = config.thetas or (0.0,) * config.layer_count
        kinds = [(theta, config.window(index)) for index, theta in enumerate(thetas)]
        built = {kind: self._build_attention(bias, dtype, *kind) for kind in dict.fromkeys(kinds)}
        return [built[kind] for kind in kinds]

    def _build_attention(
        self, bias: RelativeBias | None, dtype: torch.dtype, theta: float, window: int | None
    ) -> WholeAttention:
        config = self._config
        head_count, head_size, max_len = config.head_count, config.head_size, config.max_model_length
        angles = rotary_angles(head_size, theta, None, max_len) if theta else None
        if isinstance(self._operators, KernelOperators):
            shape = HeadShape(head_count, head_count, head_size, head_size if theta else 0, head_size**-0.5, None, 0.0)
            return KernelWholeAttention(self._operators.context, shape, bias, max_len, window, angles)
        return TorchWholeAttention(head_count, head_size, bias, dtype, self._device, window, angles)

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
