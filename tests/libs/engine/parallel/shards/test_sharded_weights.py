"""A rank reads its own part of the weights alone, and has the same part as one that reads the whole and cuts it."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_floats import FORMS, round_to_floats
from tests.libs.engine.tiny_models import make_family
from tests.libs.engine.tiny_quantized import CONFIGS, GROUP, quantize_projections

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.formats.word_packing import pack
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.parallel.shards.sharded_weights import ShardedWeights

SIZES: dict[str, Any] = {"num_hidden_layers": 1, "intermediate_size": 256, "head_dim": 32}
RANKS = [ShardPlace(rank, 2, 1) for rank in range(2)]
CPU = torch.device("cpu")
MAX_SHARE = 0.6
"""Maximum bytes that a rank of two reads, of those of the whole: half, and what is small."""


def pack_quantize(folder: Path) -> None:
    """Packs the projections in 4 bits as llm-compressor does, with zero points."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]:
        matrix = round_to_nearest.quantize(tensors.pop(f"{name}.weight"), 4, GROUP, False)
        tensors |= {
            f"{name}.weight_packed": pack(matrix.codes, 4),
            f"{name}.weight_scale": matrix.scales,
            f"{name}.weight_zero_point": pack(matrix.zeros.T, 4).T,
            f"{name}.weight_shape": torch.tensor(matrix.codes.shape),
        }
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    settings = json.loads(json.dumps(CONFIGS["compressed-tensors"])) | {"format": "pack-quantized"}
    settings["config_groups"]["group_0"]["weights"] |= {"num_bits": 4, "symmetric": False}
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"quantization_config": settings}))


FORMATS: dict[str, Callable[[Path], None]] = {
    "plain": lambda _: None,
    "awq": lambda folder: quantize_projections(folder, "awq"),
    "gptq": lambda folder: quantize_projections(folder, "int8"),
    "activation order": lambda folder: quantize_projections(folder, "gptq"),
    "int-quantized": lambda folder: quantize_projections(folder, "compressed-tensors"),
    "pack-quantized": pack_quantize,
    **{form: partial(round_to_floats, form=form) for form in FORMS},
}


class ReadBytes:
    """Bytes that are read of a checkpoint."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("raw", "raw_part"):
            patch.setattr(Weights, name, self._counted(getattr(Weights, name)))

    def take(self) -> int:
        taken, self.count = self.count, 0
        return taken

    def _counted(self, read: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def call(*operands: Any) -> torch.Tensor:
            tensor = read(*operands)
            self.count += tensor.nbytes
            return tensor

        return call


def modules_of(config: DecoderConfig, place: ShardPlace) -> dict[str, tuple[int, int]]:
    """The shapes of a rank's part of each module of a layer."""
    hidden, share = config.hidden_size, place.tensor_count
    query, kv = (count * config.head_size // share for count in (config.head_count, config.kv_head_count))
    inner = config.intermediate_size // share
    sizes = {"q_proj": (query, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, query)}
    if config.fused_qkv:
        sizes = {"qkv_proj": (query + 2 * kv, hidden), "o_proj": (hidden, query)}
    blocks = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    if config.fused_gate_up:
        blocks = {"gate_up_proj": (2 * inner, hidden), "down_proj": (hidden, inner)}
    return {f"self_attn.{name}": size for name, size in sizes.items()} | {
        f"mlp.{name}": size for name, size in blocks.items()
    }


def read_rank(folder: Path, place: ShardPlace, bits: int | None) -> dict[str, Weight]:
    config = read_model_config(folder)
    source = ShardedWeights(Weights(folder, config.quantization, bits), config, place)
    found = {}
    for name, shape in modules_of(config, place).items():
        found[name] = source.matrix(f"model.layers.0.{name}", shape, torch.float32, CPU)
        assert _shape(found[name]) == shape, name
    return found


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, bits: int | None = None) -> float:
    """Compares both ways for both ranks. Returns the larger share of the bytes."""
    read = ReadBytes(monkeypatch)
    parts = [(read_rank(folder, place, bits), read.take()) for place in RANKS]
    monkeypatch.setattr(Weights, "part", lambda *_: None)
    shares = []
    for place, (part, part_bytes) in zip(RANKS, parts, strict=True):
        expected = read_rank(folder, place, bits)
        shares.append(part_bytes / read.take())
        for name, weight in part.items():
            assert _is_same(weight, expected[name]), name
    return max(shares)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_each_rank_reads_its_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, name: str
) -> None:
    """With activation order, heads alone: inner units are dealt out in an order that is known from the whole. Where all
    inputs share a scale, what is cut by inputs is read whole."""
    make_family(tmp_path, family, **SIZES)
    FORMATS[name](tmp_path)
    share = check(tmp_path, monkeypatch)
    assert share < (MAX_SHARE if name not in ("activation order", "float-quantized") else 1.0)


@pytest.mark.parametrize("bits", [4, 8])
def test_plain_weights_that_are_rounded_keep_their_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """Halves of 256 inner units have the groups of the whole; halves of 64 query inputs would have smaller ones."""
    make_family(tmp_path, "llama", **SIZES)
    assert check(tmp_path, monkeypatch, bits) < 1.0


def test_a_cut_through_groups_reads_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path, "llama", **(SIZES | {"intermediate_size": 96}))
    quantize_projections(tmp_path, "awq")
    # Of 42 KiB in codes, the 6 of the down projection are read whole.
    assert check(tmp_path, monkeypatch) == pytest.approx(24 / 42)


def _shape(weight: Weight) -> tuple[int, ...]:
    tensor = weight.codes if isinstance(weight, QuantizedMatrix) else weight
    assert isinstance(tensor, torch.Tensor)
    return tuple(tensor.shape)


def _is_same(one: Weight, other: Weight) -> bool:
    if isinstance(one, QuantizedMatrix) and isinstance(other, QuantizedMatrix):
        facts = (one.bits, one.group_size, one.is_float) == (other.bits, other.group_size, other.is_float)
        orders = [matrix.input_order for matrix in (one, other)]
        pairs = [(one.codes, other.codes), (one.scales, other.scales), (one.zeros, other.zeros)]
        pairs += [(orders[0], orders[1])] if orders[0] is not None and orders[1] is not None else []
        return facts and (orders[0] is None) == (orders[1] is None) and all(torch.equal(*pair) for pair in pairs)
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and torch.equal(one, other)
