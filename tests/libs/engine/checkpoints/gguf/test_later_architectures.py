"""GGUF files of the families that came later compute what transformers computes from the folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.tiny_models import make_family, make_prompts

PERIOD = ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]
"""Windows as all released models of a family have them: files do not say."""
FAMILIES: dict[str, dict[str, Any]] = {
    "smollm3": {"no_rope_layer_interval": 4, "num_hidden_layers": 5, "rope_parameters": None},
    "granite": {},
    "glm4": {},
    "glm4_unbiased": {},
    "seed_oss": {},
    "seed_oss_biased": {},
    "hunyuan": {},
    "hunyuan_scaled": {},
    "ernie4_5": {},
    "ernie4_5_biased": {},
    "olmo2": {},
    "exaone4": {"layer_types": PERIOD, "num_hidden_layers": 5},
    "exaone4_full": {},
    "cohere": {},
    "cohere2": {"layer_types": PERIOD, "num_hidden_layers": 5},
    "starcoder2": {},
    "starcoder2_unbiased": {},
    "stablelm": {},
    "stablelm_parallel": {},
    "nemotron": {},
    "nemotron_biased": {},
    "gpt_neox": {},
    "gpt_neox_sequential": {"hidden_act": "gelu"},
    "falcon_7b": {},
    "falcon_40b": {},
    "falcon_11b": {"bias": True},
}
BLOCKS = ("granite", "glm4", "ernie4_5", "olmo2", "gpt_neox", "falcon_40b")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_converted_model_computes_what_transformers_does(tmp_path: Path, family: str) -> None:
    oracle = make_family(tmp_path / "folder", family, **FAMILIES[family])
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    (sequence,) = make_prompts((60,))
    with torch.inference_mode():
        expected = oracle(torch.tensor([sequence])).logits[0, :-1]
    torch.testing.assert_close(logits(path, sequence), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", BLOCKS)
def test_blocks_find_their_place(tmp_path: Path, family: str) -> None:
    make_family(tmp_path / "folder", family, intermediate_size=96)
    (sequence,) = make_prompts((40,))
    expected = logits(tmp_path / "folder", sequence)
    found = logits(convert(tmp_path / "folder", tmp_path / "model.gguf", Kind.Q8_0), sequence)
    assert (found - expected).norm() < 0.2 * expected.norm()
