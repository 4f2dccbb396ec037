"""Packs the weights of a checkpoint for a CpuDecoder."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.decoder_weights import DecoderWeights, Projection
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight, plain
from headrace.engine.cpu.weights.packed_weights import PackedWeights, Table, norm_names
from headrace.engine.cpu.weights.packing import pack, stored
from headrace.engine.kernels.packed_weight import GROUPS, PANEL, PackedWeight

HEAD_BITS = 8
CPU = torch.device("cpu")


@torch.inference_mode()
def read_packed_weights(source: Path, config: DecoderConfig, bits: int | None, *, exact: bool) -> PackedWeights:
    """Packs the weights of a checkpoint. Rounds unquantized ones to `bits`, if set. Unless `exact`, keeps the head in 8
    bits if the layers have no more. Raises InvalidCheckpoint or Unsupported."""
    reader = DecoderWeights(config, open_weights(source, config.quantization, bits), torch.float32, CPU)
    embedding = reader.embedding()
    weights = PackedWeights(Table(*stored(embedding)))
    for name, size in norm_names(config).items():
        weights.vectors[name] = reader.norm(name, size).float().contiguous().numpy()
    for index in range(config.layer_count):
        weights.matrices |= {
            f"{index}.qkv": _pack(reader.qkv(index)),
            f"{index}.output": _pack(reader.attention_output(index)),
            f"{index}.gate_up": _pack_gate_up(reader.gate_up(index), config.intermediate_size),
            f"{index}.down": _pack(reader.down(index)),
        }
    head = embedding if config.tied_embeddings else reader.head().weight
    weights.matrices["head"] = pack(_rounded(head, config.hidden_size) if weights.is_coded and not exact else head)
    weights.parameter_count = reader.parameter_count
    # torch has no work left: its threads would only spin beside those of the kernels.
    torch.set_num_threads(1)
    return weights


def _pack(projection: Projection) -> PackedWeight:
    return pack(projection.weight, projection.bias)


def _pack_gate_up(projection: Projection, inner: int) -> PackedWeight:
    """Packs gate and up with alternating panels, so that both halves of an output are ready at the same time."""
    rows = torch.arange(-(-inner // PANEL) * PANEL)
    rows[inner:] = -1
    panels = rows.view(-1, 1, PANEL)
    both = torch.cat([panels, torch.where(panels < 0, -1, panels + inner)], dim=1)
    return pack(projection.weight, projection.bias, both.flatten())


def _rounded(weight: Weight, in_size: int) -> Weight:
    group = next((size for size in GROUPS if in_size % size == 0), None)
    if group is None or isinstance(weight, QuantizedMatrix):
        return weight
    return round_to_nearest.quantize(plain(weight).float(), HEAD_BITS, group, symmetric=False)
