"""Packs the weights of a checkpoint for a CpuEncoder."""

from pathlib import Path

import numpy as np

from headrace.engine.checkpoints.array_weights import ArrayWeights
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import Projection
from headrace.engine.checkpoints.layout.encoder_weights import EncoderWeights
from headrace.engine.checkpoints.packing.array_packing import narrowed, pack_array
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.weights.quantized_arrays import ArrayWeight
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.encoder.packed_encoder import Floats, NormWeights, PackedEncoder, PackedLayer
from headrace.engine.cpu.encoder.relative_buckets import relative_buckets
from headrace.engine.cpu.weights.packed_weights import Table
from headrace.engine.kernels.packed_weight import PANEL, PackedWeight
from headrace.engine.kernels.storage import Storage

_Reader = EncoderWeights[Floats, ArrayWeight]


def read_packed_encoder(folder: Path, config: EncoderConfig, rounding: WeightRounding) -> PackedEncoder:
    """Packs the weights of a Hugging Face folder, one projection at a time. Rounds unquantized ones. Raises
    InvalidCheckpoint, Unsupported or ConfigError."""
    arrays = SafetensorsArrays(folder, config.quantization)
    tensors = ArrayWeights(arrays, rounding)
    reader: _Reader = EncoderWeights(config, tensors, arrays.__contains__)
    words = Table(*narrowed(tensors.plain("of word embeddings", reader.words(), Storage.F32)))
    positions, segments = reader.positions(), reader.segments()
    embedding_norm, final_norm = _copied(reader.embedding_norm()), reader.final_norm()
    biases = _spread(reader.relative_bias(), config)
    layers = []
    for index in range(config.layer_count):
        layers.append(_pack_layer(reader, index))
        tensors.forget()
    return PackedEncoder(
        words=words,
        positions=_placed(positions, segments, config.segment_count),
        embedding_norm=embedding_norm,
        final_norm=_copied_if_there(final_norm),
        layers=tuple(layers),
        biases=biases,
        parameter_count=reader.parameter_count,
    )


def _placed(positions: Floats | None, segments: Floats | None, count: int) -> Floats | None:
    """Returns `count` tables of positions, each with the embedding of one segment added, if there are any."""
    if positions is None:
        return None if segments is None else np.array(segments[:count])
    if segments is None:
        return np.array(positions)
    return np.concatenate([positions + segment for segment in segments[:count]])


def _pack_layer(reader: _Reader, index: int) -> PackedLayer:
    return PackedLayer(
        qkv=_pack(reader.qkv(index)),
        output=_pack(reader.attention_output(index)),
        up=_pack(reader.up(index)),
        down=_pack(reader.down(index)),
        attention_norm=_copied_if_there(reader.attention_norm(index)),
        output_norm=_copied(reader.output_norm(index)),
    )


def _pack(projection: Projection[Floats, ArrayWeight]) -> PackedWeight:
    return pack_array(projection.weight, projection.bias)


def _copied_if_there(norm: tuple[Floats, Floats] | None) -> NormWeights | None:
    return None if norm is None else _copied(norm)


def _copied(norm: tuple[Floats, Floats]) -> NormWeights:
    """Returns the weights of a norm in newly allocated memory: the arrays read may lie in the file."""
    weight, bias = norm
    return np.array(weight), np.array(bias)


def _spread(table: Floats | None, config: EncoderConfig) -> Floats | None:
    """Returns the bias of each head at every distance, see PackedEncoder. `table` is [buckets, heads]."""
    if table is None:
        return None
    distances = np.arange(1 - config.max_model_length, config.max_model_length + PANEL)
    return np.ascontiguousarray(table[relative_buckets(distances, len(table))].T)
