"""GGUF files of families with states compute what transformers computes from the folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFWriter
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.gguf_experts import add_experts
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.errors import InvalidCheckpoint

PLAIN = re.compile(r"conv\.conv|ssm_(conv1d|norm|a|d)\b")
"""Tensors that converters leave in fp32."""


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("lfm2", {"block_auto_adjust_ff_dim": False}),
        ("lfm2_moe", {}),
        ("granite_spaces", {}),
        ("granite_spaces_moe", {}),
        ("nemotron_h", {}),
        ("nemotron_h_moe", {"layer_types": ["linear_attention", "moe", "full_attention", "moe"]}),
    ],
)
def test_a_converted_model_computes_what_transformers_does(
    family: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    oracle = make_family(tmp_path / "folder", family, **settings)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    (sequence,) = make_prompts((60,))
    with torch.inference_mode():
        expected = oracle(torch.tensor([sequence])).logits[0, :-1]
    torch.testing.assert_close(logits(path, sequence), expected, rtol=1e-3, atol=1e-3)


def test_experts_within_a_latent_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nemotron 3 Super: the file says how large the vector is."""

    def add(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
        add_experts(writer, config)
        writer.add_moe_latent_size(config["moe_latent_size"])

    monkeypatch.setattr("tests.libs.engine.gguf_files.add_experts", add)
    kinds = ["linear_attention", "moe", "full_attention", "moe"]
    oracle = make_family(tmp_path / "folder", "nemotron_h_moe", layer_types=kinds, moe_latent_size=32)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    names = {tensor.name for tensor in GGUFReader(path).tensors if tensor.name.startswith("blk.1.ffn_latent")}
    assert names == {"blk.1.ffn_latent_down.weight", "blk.1.ffn_latent_up.weight"}
    (sequence,) = make_prompts((60,))
    with torch.inference_mode():
        expected = oracle(torch.tensor([sequence])).logits[0, :-1]
    torch.testing.assert_close(logits(path, sequence), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("family", "settings"), [("lfm2", {"block_auto_adjust_ff_dim": False}), ("nemotron_h", {})])
def test_blocks_find_their_place(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    make_family(tmp_path / "folder", family, **settings, intermediate_size=96)
    (sequence,) = make_prompts((40,))
    expected = logits(tmp_path / "folder", sequence)
    path = convert(
        tmp_path / "folder", tmp_path / "model.gguf", lambda name: Kind.F32 if PLAIN.search(name) else Kind.Q8_0
    )
    assert (logits(path, sequence) - expected).norm() < 0.2 * expected.norm()


def test_decays_that_are_not_negative_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path / "folder", "nemotron_h")
    monkeypatch.setattr("tests.libs.engine.gguf_spaces.convert_space", lambda _name, values, _config: abs(values))
    with pytest.raises(InvalidCheckpoint, match="ssm_a holds decays that are not negative"):
        logits(convert(tmp_path / "folder", tmp_path / "model.gguf"), (1, 2, 3))


def test_nemotron_h_may_name_the_epsilon_of_centered_norms_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As llama.cpp reads it, which has to have that one."""
    monkeypatch.setattr(GGUFWriter, "add_layer_norm_rms_eps", GGUFWriter.add_layer_norm_eps)
    make_family(tmp_path / "folder", "nemotron_h", layer_norm_epsilon=0.1)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    (sequence,) = make_prompts((20,))
    torch.testing.assert_close(logits(path, sequence), logits(tmp_path / "folder", sequence), rtol=1e-3, atol=1e-3)


def test_a_list_of_heads_must_have_integers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path / "folder", "lfm2", block_auto_adjust_ff_dim=False)
    monkeypatch.setattr(
        "tests.libs.engine.gguf_files.add_short_convolutions", lambda writer, _: writer.add_head_count_kv([1.5, 0.5])
    )
    with pytest.raises(InvalidCheckpoint, match="head_count_kv is no list of integers"):
        logits(convert(tmp_path / "folder", tmp_path / "model.gguf"), (1, 2, 3))
