"""An encoder that runs each batch in one kernel call. Computes the same function as torch's `Encoder`."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.facts.rotary.rotary_angles import rotary_angles
from headrace.engine.cpu.encoder.packed_encoder import Floats, NormWeights, PackedEncoder, PackedLayer
from headrace.engine.cpu.row_buffer import RowBuffer
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Function, pointer
from headrace.engine.kernels.structures import Encoder, EncoderBatch, EncoderLayer, Norm
from headrace.engine.memory.aligned import address


class CpuEncoder:
    """Implements the Protocol of `encoder.py` on the fused kernels. Inputs of products stay in fp32."""

    def __init__(self, config: EncoderConfig, weights: PackedEncoder, context: KernelContext) -> None:
        self._config = config
        self._weights = weights
        self._context = context
        head_size, longest = config.head_size, config.max_model_length
        self._angles = {theta: rotary_angles(head_size, theta, None, longest) for theta in {*config.thetas}}
        self._layers = (EncoderLayer * config.layer_count)(*map(self._layer, range(config.layer_count), weights.layers))
        biases = weights.biases
        self._model = Encoder(
            layers=self._layers,
            words=address(weights.words.numbers),
            positions=pointer(weights.positions),
            norm=self._norm(weights.embedding_norm),
            layer_count=config.layer_count,
            hidden=config.hidden_size,
            vocabulary=config.vocabulary_size,
            position_count=config.position_count * config.segment_count,
            head_count=config.head_count,
            longest=config.max_model_length,
            bias=None if biases is None else address(biases) + (config.max_model_length - 1) * biases.itemsize,
            bias_stride=0 if biases is None else biases.shape[1],
            word_storage=weights.words.storage,
            activation=Function[config.activation.upper()],
            scale=config.head_size**-0.5,
            final_norm=self._norm(weights.final_norm),
            rotates=bool(config.thetas),
            normalizes_inputs=config.normalizes_inputs,
            is_gated=config.is_gated,
        )
        self._hidden = RowBuffer(config.hidden_size)

    def __call__(self, inputs: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Computes the final hidden states, fp32 [tokens, hidden], of each input, which has at least one token, in
        memory that the next call overwrites. They depend on their own input alone. Raises IndexError for token ids and
        lengths that the model does not take, and MemoryError."""
        lengths = np.array([len(tokens) for tokens in inputs], np.int64)
        token_ids = np.fromiter(chain.from_iterable(inputs), np.int64, lengths.sum())
        positions = np.fromiter(chain.from_iterable(map(self._config.positions, inputs)), np.int64, len(token_ids))
        hidden = self._hidden.rows(len(token_ids))
        integers = map(address, (token_ids, positions, lengths))
        self._context.encode(self._model, EncoderBatch(*integers, address(hidden), len(token_ids), len(inputs)))
        return np.split(hidden, np.cumsum(lengths)[:-1])

    def _layer(self, index: int, layer: PackedLayer) -> EncoderLayer:
        matrices = (layer.qkv, layer.output, layer.up, layer.down)
        norms = (layer.attention_norm, layer.output_norm)
        described = EncoderLayer(*(matrix.matrix(exact=True) for matrix in matrices), *map(self._norm, norms))
        described.window = self._config.window(index) or 0
        if self._config.thetas:
            described.cosine, described.sine = map(address, self._angles[self._config.thetas[index]])
        return described

    def _norm(self, norm: NormWeights | None) -> Norm:
        if norm is None:
            return Norm()
        weight, bias = norm
        return Norm(address(weight), address(bias), len(weight), self._config.norm_epsilon)
