"""Models in GGUF's blocks on the fused kernels: their numbers, their memory, and what is kept for the next start."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import KINDS, q4_k_m, write_model
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import UNROUNDED, WeightRounding
from headrace.engine.cpu import load
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_layout import check_layout
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.engine.cpu.weights.packed_weights import PackedWeights, Table
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.library import Instructions, available
from headrace.errors.tree import InvalidCheckpoint
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.served_model import ServedModel

pytestmark = needs_kernels

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 300,
    "max_position_embeddings": 64,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
TOKENS = tuple((7 * position + 3) % 300 for position in range(60))


def of_all_kinds(name: str, layer: int, _layer_count: int) -> Kind:
    """Every kind stands beside every other somewhere."""
    order = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output", "token_embd")
    return KINDS[(order.index(name) + 3 * layer) % len(KINDS)]


MIXES = {"q4_k_m": q4_k_m, "all": of_all_kinds}


def write(folder: Path, mix: str, **changes: Any) -> Path:
    return write_model(folder / "model.gguf", CONFIG | changes, MIXES[mix])


def logits(path: Path, precision: str = "auto", *, exact: bool = False) -> torch.Tensor:
    return ServedModel.load(path, len(TOKENS), precision, exact=exact).logits(TOKENS)


def read(path: Path) -> PackedWeights:
    return read_packed_weights(path, read_model_config(path), UNROUNDED, exact=False, keeps_blocks=True)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("mix", MIXES)
def test_exact_has_the_bits_of_dequantized_weights(tmp_path: Path, mix: str, tied: bool) -> None:
    path = write(tmp_path, mix, tie_word_embeddings=tied)
    expected = logits(path, "float32")
    assert expected.std() > 0.01
    assert torch.equal(logits(path, exact=True), expected)


@pytest.mark.parametrize("mix", MIXES)
def test_torch_has_the_same_weights(tmp_path: Path, mix: str) -> None:
    """The other path dequantizes; greedy tokens are those of exact products."""
    path = write(tmp_path, mix)
    through_torch = SequenceModel.load(path, len(TOKENS), "float32").logits(TOKENS)
    exact = logits(path, exact=True)
    torch.testing.assert_close(exact, through_torch, rtol=1e-4, atol=1e-4)
    assert torch.equal(exact.argmax(dim=-1), through_torch.argmax(dim=-1))


@pytest.mark.parametrize("mix", MIXES)
def test_rounded_inputs_change_little(tmp_path: Path, mix: str) -> None:
    path = write(tmp_path, mix)
    expected, found = logits(path, exact=True), logits(path)
    assert not torch.equal(found, expected)
    assert (found - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("mix", MIXES)
def test_every_set_has_the_same_logits(tmp_path: Path, mix: str, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = write(tmp_path, mix), {}
    for instructions in available():
        choice = KernelChoice(((1, instructions),))
        monkeypatch.setattr(load, "choose_kernels", lambda *_, choice=choice, **__: choice)
        found[instructions] = logits(path, exact=exact)
    assert all(torch.equal(each, found[Instructions.PORTABLE]) for each in found.values())


@pytest.mark.parametrize("tied", [False, True])
def test_weights_take_the_memory_of_the_file(tmp_path: Path, tied: bool) -> None:
    path = write(tmp_path, "q4_k_m", tie_word_embeddings=tied, vocab_size=4096)
    weights = read(path)
    assert weights.has_shared_table == tied
    assert weights.byte_count < 1.05 * path.stat().st_size
    assert weights.block_kinds == ["Q4_K", "Q6_K"]
    assert weights.is_coded


def test_matrices_of_several_kinds_come_in_parts(tmp_path: Path) -> None:
    parts = {name for name in read(write(tmp_path, "all")).matrices if name.startswith("0.")}
    assert parts == {f"0.{name}" for name in ("qkv", "qkv.1", "qkv.2", "output", "gate_up", "up", "down")}
    parts = {name for name in read(write(tmp_path, "q4_k_m")).matrices if name.startswith(("0.", "1."))}
    assert parts == {"0.qkv", "1.qkv"} | {f"{i}.{name}" for i in (0, 1) for name in ("output", "gate_up", "down")}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("mix", MIXES)
def test_what_was_saved_is_loaded(tmp_path: Path, mix: str, tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    path = write(tmp_path, mix, tie_word_embeddings=tied)
    weights, config = read(path), read_model_config(path)
    cache, kept = PackedWeightsCache(tmp_path / "packed", 1 << 30), tmp_path / "packed" / "a-1.packed"
    cache.save(kept, weights)
    found = cache.load(kept, config)
    assert found is not None
    assert found.has_shared_table == tied
    assert found.byte_count == weights.byte_count
    assert found.matrices.keys() == weights.matrices.keys()
    for name, matrix in weights.matrices.items():
        assert found.matrices[name].storage is matrix.storage
        assert np.array_equal(found.matrices[name].panels, matrix.panels)
    assert np.array_equal(found.embedding.numbers, weights.embedding.numbers)


def without(weights: PackedWeights, name: str) -> None:
    del weights.matrices[name]


def swap(weights: PackedWeights) -> None:
    weights.matrices["0.qkv.1"] = weights.matrices["0.up"]


def regroup(weights: PackedWeights) -> None:
    weights.matrices["0.down"] = replace(weights.matrices["0.down"], group=64)


def shorten(weights: PackedWeights) -> None:
    weights.embedding = Table(weights.embedding.numbers[:-64], weights.embedding.storage)


WRONG = {
    "a part is missing": (lambda weights: without(weights, "0.qkv.2"), "in one of file and model only"),
    "a part is another": (swap, "in one of file and model only"),
    "up is missing": (lambda weights: without(weights, "0.up"), r"0\.gate_up is \[512, 256\], not \[1024, 256\]"),
    "another group": (regroup, "in groups of 64"),
    "a short table": (shorten, "embedding is uint8"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_parts_that_do_not_fit_the_model_are_refused(tmp_path: Path, fault: str) -> None:
    path = write(tmp_path, "all")
    weights, config = read(path), read_model_config(path)
    check_layout(weights, config)
    change, message = WRONG[fault]
    change(weights)
    with pytest.raises(ValueError, match=message):
        check_layout(weights, config)


def test_scales_that_are_no_numbers_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "q4_k_m")
    (tensor,) = (each for each in gguf.GGUFReader(path).tensors if each.name == "blk.1.ffn_up.weight")
    content = bytearray(path.read_bytes())
    content[tensor.data_offset + 2 : tensor.data_offset + 4] = np.array([np.inf], np.float16).tobytes()
    path.write_bytes(content)
    with pytest.raises(InvalidCheckpoint, match=r"tensor blk\.1\.ffn_up\.weight holds values that are not finite"):
        read(path)


def test_rounding_again_still_rounds(tmp_path: Path) -> None:
    path = write(tmp_path, "q4_k_m")
    weights = read_packed_weights(path, read_model_config(path), WeightRounding(4), exact=False)
    assert weights.block_kinds == []
    assert ServedModel.load(path, 16, "int4").precision == "int4"
    assert ServedModel.load(path, 16, "auto").precision == "GGUF blocks (Q4_K, Q6_K)"
