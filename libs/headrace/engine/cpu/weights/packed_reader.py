"""Packs the weights of a checkpoint for a CpuDecoder."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.engine.checkpoints.array_weights import open_array_weights
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming
from headrace.engine.checkpoints.packing.array_packing import narrowed, pack_array, pack_runs
from headrace.engine.checkpoints.weights.quantized_arrays import ArrayWeight, BlockArrays, Floats
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.checkpoints.weights.weight_rounding import HEAD_BITS, WeightRounding
from headrace.engine.cpu.weights.key_factors import choose_key_factors
from headrace.engine.cpu.weights.packed_weights import (
    PackedWeights,
    Table,
    gate_up_rows,
    norm_names,
    router_bias_names,
)
from headrace.engine.cpu.weights.weight_rows import weight_rows
from headrace.engine.kernels.packed_weight import GROUPS, PackedWeight
from headrace.engine.kernels.storage import BLOCKS

_log = logging.getLogger(__name__)

_Reader = DecoderWeights[Floats, ArrayWeight]
_Projection = Projection[Floats, ArrayWeight]


def read_packed_weights(
    source: Path,
    config: DecoderConfig,
    rounding: WeightRounding,
    *,
    exact: bool,
    keeps_blocks: bool = False,
) -> PackedWeights:
    """Packs the weights of a checkpoint, one projection at a time. Rounds unquantized ones. Unless `exact`, keeps the
    head in 8 bits if the layers have no more. `keeps_blocks` keeps blocks of GGUF as they are. Raises
    InvalidCheckpoint, Unsupported or ConfigError."""
    tensors = open_array_weights(
        source, config.quantization, rounding, keeps_blocks=keeps_blocks, naming=ModuleNaming.of(config)
    )
    reader: _Reader = DecoderWeights(config, tensors)
    embedding = reader.embedding_matrix()
    weights = PackedWeights(_table(embedding))
    for name, size in norm_names(config).items():
        weights.vectors[name] = np.array(reader.norm(name, size))
    for index in range(config.layer_count):
        _log.info("packing weights", extra={"done": index, "total": config.layer_count + 1})
        qkv = reader.qkv(index)
        weights.vectors[f"{index}.key_factors"] = _key_factors(qkv, weights, config, index)
        weights.matrices |= _pack_attention(reader, qkv, index) | _pack_feed_forward(reader, config, index)
        weights.vectors |= _router_bias(reader, config, index)
        if config.has_sinks:
            weights.vectors[f"{index}.sinks"] = np.array(reader.sinks(index))
        tensors.forget()
    if config.has_head:
        head = embedding if config.tied_embeddings else reader.head().weight
        weights.matrices["head"] = _pack_head(head, weights, config, exact=exact)
    weights.parameter_count = reader.parameter_count
    return weights


def _table(embedding: ArrayWeight) -> Table:
    if isinstance(embedding, StoredArrays):
        return Table(*narrowed(embedding))
    packed = pack_array(embedding)
    return Table(packed.panels, packed.storage)


def _pack_head(head: ArrayWeight, weights: PackedWeights, config: DecoderConfig, *, exact: bool) -> PackedWeight:
    """Packs the head. Blocks that it shares with the embedding stay shared."""
    if isinstance(head, BlockArrays) and config.tied_embeddings:
        table, columns = weights.embedding, BLOCKS[weights.embedding.storage].columns
        panels = np.asarray(table.numbers, np.uint8)
        return PackedWeight(panels, table.storage, config.vocabulary_size, config.hidden_size, columns)
    return pack_array(_rounded(head, config.hidden_size) if weights.is_coded and not exact else head)


def _key_factors(qkv: _Projection, weights: PackedWeights, config: DecoderConfig, index: int) -> Floats:
    first = config.head_count * config.head_size
    last = first + config.kv_head_count * config.head_size
    prefix = f"model.layers.{index}"
    return choose_key_factors(
        weight_rows(qkv.weight, first, last),
        None if qkv.bias is None else qkv.bias[first:last],
        weights.vectors[f"{prefix}.input_layernorm"],
        weights.vectors.get(f"{prefix}.self_attn.k_norm"),
        config,
    )


def _pack_attention(reader: _Reader, qkv: _Projection, index: int) -> dict[str, PackedWeight]:
    parts = pack_runs(qkv.weight, qkv.bias)
    return {
        **{f"{index}.{name}": part for name, part in zip(("qkv", "qkv.1", "qkv.2"), parts, strict=False)},
        f"{index}.output": _pack(reader.attention_output(index)),
    }


def _pack_feed_forward(reader: _Reader, config: DecoderConfig, index: int) -> dict[str, PackedWeight]:
    experts = config.experts
    if experts is None or index in experts.dense_layers:
        return _pack_block(f"{index}", reader.gate_up(index), reader.down(index), config.intermediate_size)
    module = f"model.layers.{index}.{experts.module}"
    packed = {f"{index}.router": _pack(reader.router(module, experts))}
    for name, inner in experts.experts:
        prefix = f"{module}.{name}"
        gate_up = reader.gate_up_of(prefix, experts.gate_up_names(name), inner)
        packed |= _pack_block(f"{index}.{name}", gate_up, reader.down_of(prefix, experts.projections[2], inner), inner)
    return packed


def _router_bias(reader: _Reader, config: DecoderConfig, index: int) -> dict[str, Floats]:
    size = router_bias_names(config).get(f"{index}.router_bias")
    if size is None or config.experts is None:
        return {}
    bias = reader.router_bias(f"model.layers.{index}.{config.experts.module}", config.experts)
    return {f"{index}.router_bias": np.array(bias, np.float32).reshape(size)}


def _pack_block(prefix: str, gate_up: _Projection, down: _Projection, inner: int) -> dict[str, PackedWeight]:
    packed = _pack_gate_up(gate_up, inner) | {"down": _pack(down)}
    return {f"{prefix}.{name}": part for name, part in packed.items()}


def _pack(projection: _Projection) -> PackedWeight:
    return pack_array(projection.weight, projection.bias)


def _pack_gate_up(projection: _Projection, inner: int) -> dict[str, PackedWeight]:
    """Packs gate and up with alternating panels, see `gate_up_rows`; and each alone if their blocks differ."""
    weight = projection.weight
    if isinstance(weight, BlockArrays) and len(weight.runs) > 1:
        return dict(zip(("gate_up", "up"), pack_runs(weight, projection.bias), strict=True))
    return {"gate_up": pack_array(weight, projection.bias, gate_up_rows(inner))}


def _rounded(weight: ArrayWeight, in_size: int) -> ArrayWeight:
    group = next((size for size in GROUPS if in_size % size == 0), None)
    if group is None or not isinstance(weight, StoredArrays):
        return weight
    return replace(weight, bits=HEAD_BITS, group_size=group)
