"""GGUF files of AFM, Ministral 3, Mistral Small 3 and OLMo 3 compute what transformers computes from the folder."""

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from tests.libs.engine import gguf_files
from tests.libs.engine.checkpoints.families.oracles import load
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.tiny_models import make_family, make_prompts

OWN_ARCHITECTURES = {
    "arcee": gguf.MODEL_ARCH.ARCEE,
    "ministral3": gguf.MODEL_ARCH.MISTRAL3,
    "olmo3": gguf.MODEL_ARCH.OLMO2,
}
PERMUTED = (*gguf_files.PERMUTED, gguf.MODEL_ARCH.ARCEE, gguf.MODEL_ARCH.MISTRAL3)
add_usual_rope = gguf_files.add_rope


def add_rope(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Adds what the converter writes for these families beside the usual settings."""
    add_usual_rope(writer, config)
    rope = config["rope_parameters"]
    if "llama_4_scaling_beta" in rope:
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if config["model_type"] == "olmo3":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])


@pytest.fixture(autouse=True)
def converter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, architecture in (OWN_ARCHITECTURES | {"mistral": gguf.MODEL_ARCH.MISTRAL3}).items():
        monkeypatch.setitem(gguf_files.ARCHITECTURES, name, architecture)
    monkeypatch.setattr(gguf_files, "PERMUTED", PERMUTED)
    monkeypatch.setattr(gguf_files, "add_rope", add_rope)


YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 512}
MINISTRAL = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("arcee", {}),
        ("ministral3", {"rope_parameters": MINISTRAL}),
        ("mistral", {"sliding_window": None}),
        ("olmo3", {}),
    ],
    ids=["arcee", "ministral3", "mistral-small-3", "olmo3"],
)
def test_a_file_computes_what_transformers_does(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    oracle = make_family(tmp_path / "folder", family, **settings)
    path = gguf_files.convert(tmp_path / "folder", tmp_path / "model.gguf")
    (sequence,) = make_prompts((60,))
    with torch.inference_mode():
        expected = oracle(torch.tensor([sequence])).logits[0, :-1]
    torch.testing.assert_close(logits(path, sequence), expected, rtol=1e-3, atol=1e-3)


def test_ministral_3_ends_where_its_queries_would_be_scaled(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "ministral3", rope_parameters=MINISTRAL)
    path = gguf_files.convert(tmp_path / "folder", tmp_path / "model.gguf")
    assert load(path).spec.max_model_length == MINISTRAL["original_max_position_embeddings"]
