"""The weights of a FusedDecoder: what its kernels read, by name."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.packed_weight import GROUPS, PANEL, PackedWeight, pack
from headrace.engine.kernels.cpu.storage import compact
from headrace.engine.loader.weight_source import WeightSource
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.decoder_weights import DecoderWeights, Projection
from headrace.engine.quantization import round_to_nearest
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight, plain

HEAD_BITS = 8
CPU = torch.device("cpu")


@dataclass(slots=True)
class FusedWeights:
    embedding: Tensor
    """[vocabulary, hidden], fp32, bf16 or fp16."""
    vectors: dict[str, Tensor] = field(default_factory=dict)
    """Weights of norms, fp32, by the name of the norm."""
    matrices: dict[str, PackedWeight] = field(default_factory=dict)
    """`qkv`, `output`, `gate_up` and `down` of each layer, as in `0.qkv`; and `head`."""
    parameter_count: int = 0

    @property
    def is_coded(self) -> bool:
        """The matrices of the layers are held in 8 bits or fewer."""
        return any(matrix.is_coded for name, matrix in self.matrices.items() if name != "head")

    @property
    def byte_count(self) -> int:
        """Memory held, in bytes."""
        tensors = [self.embedding, *self.vectors.values()]
        packed = sum(matrix.byte_count for matrix in self.matrices.values())
        return packed + sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def norm_names(config: DecoderConfig) -> dict[str, int]:
    """The norms of a model, and their sizes."""
    names = {"model.norm": config.hidden_size}
    for index in range(config.layer_count):
        prefix = f"model.layers.{index}"
        names |= {f"{prefix}.{name}_layernorm": config.hidden_size for name in ("input", "post_attention")}
        if config.query_key_norm:
            names |= {f"{prefix}.self_attn.{name}_norm": config.head_size for name in "qk"}
    return names


def read_fused_weights(config: DecoderConfig, source: WeightSource, *, exact: bool) -> FusedWeights:
    """Packs the weights of a checkpoint. Unless `exact`, the head is held in 8 bits where the layers have no more.

    Raises InvalidCheckpoint where they do not suit.
    """
    reader = DecoderWeights(config, source, torch.float32, CPU)
    weights = FusedWeights(compact(reader.embedding()).contiguous())
    for name, size in norm_names(config).items():
        weights.vectors[name] = reader.norm(name, size).float().contiguous()
    for index in range(config.layer_count):
        weights.matrices |= {
            f"{index}.qkv": _pack(reader.qkv(index)),
            f"{index}.output": _pack(reader.attention_output(index)),
            f"{index}.gate_up": _pack_gate_up(reader.gate_up(index), config.intermediate_size),
            f"{index}.down": _pack(reader.down(index)),
        }
    head = weights.embedding if config.tied_embeddings else reader.head().weight
    weights.matrices["head"] = pack(_rounded(head, config.hidden_size) if weights.is_coded and not exact else head)
    weights.parameter_count = reader.parameter_count
    return weights


def _pack(projection: Projection) -> PackedWeight:
    return pack(projection.weight, projection.bias)


def _pack_gate_up(projection: Projection, inner: int) -> PackedWeight:
    """Panels of gate and up take turns, so that both halves of an output are there at the same time."""
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
