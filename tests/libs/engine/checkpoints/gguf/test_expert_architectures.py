"""GGUF files of the families with experts compute what their folders do, in plain numbers and in blocks."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_files import close_writer, convert, open_writer
from tests.libs.engine.later_models import LATER_FAMILIES
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import UNROUNDED
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.errors import Unsupported
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.served_model import ServedModel

FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2_moe": {},
    "qwen2_moe_sparse": {"decoder_sparse_step": 1},
    "olmoe": {},
    "glm4_moe": {"num_nextn_predict_layers": 1},
    "glm4_moe_groups": {},
    "dots1": {},
    "ernie4_5_moe": {"moe_layer_interval": 2},
    "hunyuan_moe": {"head_dim": 64},
    "granite_moe": {},
    "granite_moe_shared": {},
    "minimax_m2": {},
    "llama4": {
        "num_hidden_layers": 4,
        "no_rope_layers": None,
        "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 96,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 5e5,
            "factor": 16.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
        },
    },
}
"""Settings by family. Those that files do not carry are put to what all released models have."""
FUSED = [family for family in FAMILIES if family not in ("olmoe", "minimax_m2", "llama4")]
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 64,
    "shared_intermediate_size": 64,
}
"""Multiples of a block of 32 inputs."""
OTHERS = r"ffn_down_exps|ffn_up_shexp|blk.1.ffn_gate_exps"
(SEQUENCE,) = make_prompts((60,))


def sizes_of(family: str) -> dict[str, int]:
    usual = ("hidden_size", "intermediate_size")
    return {key: size for key, size in SIZES.items() if key in usual or key in LATER_FAMILIES[family]}


def served(model: Path, precision: str = "auto", *, exact: bool = False) -> torch.Tensor:
    return ServedModel.load(model, len(SEQUENCE), precision, exact=exact).logits(SEQUENCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_of_plain_numbers_has_the_bits_of_its_folder(tmp_path: Path, family: str) -> None:
    oracle = make_family(tmp_path / "folder", family, **FAMILIES[family])
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    found = served(path)
    assert torch.equal(found, served(tmp_path / "folder"))
    with torch.inference_mode():
        expected = oracle(torch.tensor([SEQUENCE])).logits[0, :-1]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    through_torch = SequenceModel.load(path, len(SEQUENCE), "float32").logits(SEQUENCE)
    torch.testing.assert_close(through_torch, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_find_their_place(tmp_path: Path, family: str) -> None:
    make_family(tmp_path / "folder", family, **FAMILIES[family], **sizes_of(family))
    expected = served(tmp_path / "folder")
    found = served(convert(tmp_path / "folder", tmp_path / "model.gguf", Kind.Q8_0), exact=True)
    assert 0 < (found - expected).norm() < 0.2 * expected.norm()


@needs_kernels
@pytest.mark.parametrize(
    ("family", "kind"),
    [*((family, Kind.Q4_K) for family in FUSED), ("qwen2_moe", Kind.Q8_0), ("granite_moe", Kind.Q8_0)],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_blocks_of_experts_are_multiplied_as_they_are(tmp_path: Path, family: str, kind: Kind) -> None:
    """Other kinds of some projections, as llama.cpp mixes them, come in products of their own. Which block has how many
    inputs and where it lies is a matter of its kind alone: blocks of 32 are tried with and without a shared expert."""
    make_family(
        tmp_path / "folder", family, **FAMILIES[family], **dict.fromkeys(sizes_of(family), 256), initializer_range=0.05
    )
    path = convert(
        tmp_path / "folder", tmp_path / "model.gguf", lambda name: Kind.Q6_K if re.search(OTHERS, name) else kind
    )
    weights = read_packed_weights(path, read_model_config(path), UNROUNDED, exact=False, keeps_blocks=True)
    assert weights.block_kinds == sorted({kind.name, "Q6_K"})
    dequantized = served(path, "float32")
    assert dequantized.std() > 0.01
    assert torch.equal(served(path, exact=True), dequantized)
    errors = (served(path) - dequantized).norm(dim=1) / dequantized.norm(dim=1)
    # A token whose inputs were rounded may choose another expert, which gives it other logits.
    assert 0 < errors.median() < 0.05


def test_scores_that_the_family_does_not_have_are_refused(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "dots1")
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    key, kind = b"dots1.expert_gating_func", struct.pack("<I", 4)
    content = path.read_bytes()
    assert content.count(key + kind + struct.pack("<I", 2)) == 1
    path.write_bytes(content.replace(key + kind + struct.pack("<I", 2), key + kind + struct.pack("<I", 1)))
    with pytest.raises(Unsupported, match="expert_gating_func 1 is not supported in dots1"):
        read_model_config(path)


def test_absent_architectures_are_refused_with_a_reason(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "phimoe")
    close_writer(writer)
    with pytest.raises(Unsupported, match=r"'phimoe' is not supported: .*serve its folder of safetensors"):
        read_model_config(tmp_path / "model.gguf")


def test_llama4_of_128_experts_does_not_normalize_heads_and_always_has_chunks(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "llama4", num_local_experts=128, hidden_size=16, intermediate_size=8)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    config = read_model_config(path)
    assert (config.query_key_norm, config.unrotated_layers, config.pairs_neighbors) == (False, frozenset(), True)
    writer = open_writer(tmp_path / "full.gguf", json.loads((tmp_path / "folder" / "config.json").read_text()))
    writer.add_sliding_window(0)
    writer.add_tensor("token_embd.weight", np.zeros((4, 16), np.float32))
    close_writer(writer)
    with pytest.raises(Unsupported, match="Llama 4 without chunks"):
        read_model_config(tmp_path / "full.gguf")


@pytest.mark.parametrize("name", ["granite", "granite_moe"])
def test_granite_without_rotation_is_refused(tmp_path: Path, name: str) -> None:
    make_family(tmp_path / "folder", name)
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    writer = open_writer(tmp_path / "model.gguf", config)
    writer.add_rope_scaling_finetuned(False)
    writer.add_tensor("token_embd.weight", np.zeros((4, 64), np.float32))
    close_writer(writer)
    with pytest.raises(Unsupported, match="Granite without rotation"):
        read_model_config(tmp_path / "model.gguf")


def test_sizes_that_older_files_leave_out_are_those_of_a_dense_block(tmp_path: Path) -> None:
    sizes = {"intermediate_size": 90, "moe_intermediate_size": 30, "shared_expert_intermediate_size": 90}
    make_family(tmp_path / "folder", "qwen2_moe", **sizes)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    expected, content = read_model_config(path), path.read_bytes()
    for key in (b"expert_feed_forward_length", b"expert_shared_feed_forward_length"):
        assert content.count(key) == 1
        content = content.replace(key, key.replace(b"length", b"lenght"))
    path.write_bytes(content)
    assert read_model_config(path) == expected


def test_layers_that_predict_further_tokens_are_left_out(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "glm4_moe", num_nextn_predict_layers=2)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    assert gguf.GGUFReader(path).fields["glm4moe.block_count"].contents() == 5
    assert read_model_config(path).layer_count == 3
