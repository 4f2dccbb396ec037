"""Memory that a model takes in each precision, from config.json alone, without reading weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS
from headrace.engine.checkpoints.weight_record import GRID_BYTES, WeightRecord
from headrace.engine.checkpoints.weights.rounding_sizes import GROUP_SIZES, HEAD_BITS
from headrace.engine.torch.decoder.decoder_reader import DecoderReader
from headrace.engine.torch.device_setup import PRECISIONS
from headrace.engine.torch.operators.torch_operators import TorchOperators

META = torch.device("meta")
BYTE_BITS = 8


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory that a model takes, in bytes."""

    precision: str
    weight_bytes: int
    kv_bytes_per_token: int


def list_footprints(source: Path, device: str) -> list[Footprint]:
    """Lists the footprint of each precision that a "cpu" or "cuda" device supports, most exact first.

    GPUs have no kernels for packed weights yet: there, files with packed weights take as much memory as plain ones.
    Raises InvalidCheckpoint or Unsupported.
    """
    config = read_model_config(source)
    record = _read_shapes(config)
    if config.quantization is not None:
        name = f"int{config.quantization.bits} ({config.quantization.method})"
        if device == "cuda":
            return [_footprint(config, record, name, config.precision, {})]
        return [_footprint(config, record, name, "float32", _packed_by(config.quantization, record))]
    plain = [_footprint(config, record, name, name, {}) for name in ("float32", "bfloat16")]
    if device == "cuda":
        return plain
    rounded = ROUNDED_BITS.items()
    return plain + [_footprint(config, record, name, "float32", _rounded_to(bits, record)) for name, bits in rounded]


class _Shapes:
    """A WeightSource of tensors that have shapes but no content."""

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)


@dataclass(frozen=True, slots=True)
class _Packing:
    """Format of a module's codes."""

    bits: int
    group_size: int


def _read_shapes(config: DecoderConfig) -> WeightRecord:
    """Records the tensors that the decoder would read, in fp32."""
    record = WeightRecord(_Shapes())
    reader = DecoderReader(config, record, TorchOperators(), torch.float32, META)
    embedding = reader.embedding()
    for index in range(config.layer_count):
        reader.layer(index)
        reader.head_norms(index)
    reader.norm("model.norm")
    reader.head(embedding)
    return record


def _rounded_to(bits: int, record: WeightRecord) -> dict[str, _Packing]:
    """Returns the modules that are rounded at load."""
    packings = {}
    for name, (_, in_size) in record.modules.items():
        group_size = next((size for size in GROUP_SIZES if in_size % size == 0), None)
        if group_size is not None:
            packings[name] = _Packing(HEAD_BITS if name == "lm_head" else bits, group_size)
    return packings


def _packed_by(scheme: QuantizationScheme, record: WeightRecord) -> dict[str, _Packing]:
    """Returns the modules that files usually pack: all except output heads and routers."""
    packings = {}
    for name, (_, in_size) in record.modules.items():
        module_scheme = scheme.of_module(name)
        if module_scheme is not None and name != "lm_head" and not name.endswith(".gate"):
            packings[name] = _Packing(module_scheme.bits, module_scheme.group_size or in_size)
    return packings


def _footprint(
    config: DecoderConfig, record: WeightRecord, name: str, dtype_name: str, packings: Mapping[str, _Packing]
) -> Footprint:
    item_size = PRECISIONS[dtype_name].itemsize
    weight_bytes = record.byte_count // torch.float32.itemsize * item_size
    for module, packing in packings.items():
        out_size, in_size = record.modules[module]
        groups = -(-in_size // packing.group_size)
        weight_bytes -= out_size * in_size * item_size
        weight_bytes += out_size * (in_size * packing.bits // BYTE_BITS + groups * GRID_BYTES)
    kv_values = 2 * config.layer_count * config.kv_head_count * config.head_size
    return Footprint(name, weight_bytes, kv_values * item_size)
