"""Packs the weights of a checkpoint for a CpuDecoder."""

import logging
from pathlib import Path

import numpy as np

from headrace.engine.checkpoints.array_weights import open_array_weights
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.weights.array_rounding import quantize_array
from headrace.engine.checkpoints.weights.quantized_arrays import ArrayWeight, Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.rounding_sizes import HEAD_BITS
from headrace.engine.cpu.weights.array_packing import pack_array, stored_array
from headrace.engine.cpu.weights.packed_weights import PackedWeights, Table, norm_names
from headrace.engine.kernels.packed_weight import GROUPS, PANEL, PackedWeight

_log = logging.getLogger(__name__)


def read_packed_weights(source: Path, config: DecoderConfig, bits: int | None, *, exact: bool) -> PackedWeights:
    """Packs the weights of a checkpoint. Rounds unquantized ones to `bits`, if set. Unless `exact`, keeps the head in 8
    bits if the layers have no more. Raises InvalidCheckpoint or Unsupported."""
    reader = DecoderWeights(config, open_array_weights(source, config.quantization, bits))
    embedding = reader.embedding()
    weights = PackedWeights(Table(*stored_array(embedding)))
    for name, size in norm_names(config).items():
        weights.vectors[name] = np.array(reader.norm(name, size))
    for index in range(config.layer_count):
        _log.info("packing weights", extra={"done": index, "total": config.layer_count + 1})
        weights.matrices |= {
            f"{index}.qkv": _pack(reader.qkv(index)),
            f"{index}.output": _pack(reader.attention_output(index)),
            f"{index}.gate_up": _pack_gate_up(reader.gate_up(index), config.intermediate_size),
            f"{index}.down": _pack(reader.down(index)),
        }
    head = embedding if config.tied_embeddings else reader.head().weight
    weights.matrices["head"] = pack_array(
        _rounded(head, config.hidden_size) if weights.is_coded and not exact else head
    )
    weights.parameter_count = reader.parameter_count
    return weights


def _pack(projection: Projection[Floats, ArrayWeight]) -> PackedWeight:
    return pack_array(projection.weight, projection.bias)


def _pack_gate_up(projection: Projection[Floats, ArrayWeight], inner: int) -> PackedWeight:
    """Packs gate and up with alternating panels, so that both halves of an output are ready at the same time."""
    rows = np.arange(-(-inner // PANEL) * PANEL)
    rows[inner:] = -1
    panels = rows.reshape(-1, 1, PANEL)
    both = np.concatenate([panels, np.where(panels < 0, -1, panels + inner)], axis=1)
    return pack_array(projection.weight, projection.bias, both.flatten())


def _rounded(weight: ArrayWeight, in_size: int) -> ArrayWeight:
    group = next((size for size in GROUPS if in_size % size == 0), None)
    if group is None or isinstance(weight, QuantizedArrays):
        return weight
    return quantize_array(weight, HEAD_BITS, group)
