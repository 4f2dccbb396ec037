"""Families that are computed layer by layer multiply the blocks of a GGUF file as they are."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.checkpoints.families.oracles import prompt_logits
from tests.libs.engine.engine_running import engine_config, without_kernels
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

PROMPT = make_prompts((70,))[0]
ROUNDING = 2e-4
LARGEST_SHARE = 0.3
"""Difference that inputs in 8 bits make to the logits of random weights."""
SIZES = {"hidden_size": 256, "intermediate_size": 256}
"""Sizes of which every kind of blocks makes whole rows."""
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": SIZES | {"head_dim": 64},
    "lfm2": SIZES | {"block_auto_adjust_ff_dim": False},
    "olmo2": SIZES,
}


def mixed(name: str) -> Kind:
    """Kinds that make query, key and value one matrix in three parts."""
    if "norm" in name or "conv.conv" in name:
        return Kind.F32
    if "attn_k" in name or "ffn_down" in name or name.startswith("token_embd"):
        return Kind.Q6_K
    return Kind.Q8_0 if "attn_v" in name else Kind.Q4_K


def load(path: Path, **settings: Any) -> TextEngine:
    usual: dict[str, Any] = {"block_count": 64, "kernels": "torch", "kv_precision": "float32"}
    return load_text_engine(path, engine_config(**(usual | settings)))


@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_are_the_numbers_that_they_stand_for(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernels there are no blocks: they are dequantized by the `gguf` package."""
    make_family(tmp_path / "folder", name, **FAMILIES[name])
    path = convert(tmp_path / "folder", tmp_path / "model.gguf", mixed)
    exact, rounded = (prompt_logits(load(path, exact=exact), PROMPT) for exact in (True, False))
    held = load(path).spec.memory.weight_bytes
    without_kernels(monkeypatch)
    numbers = load(path)
    expected = prompt_logits(numbers, PROMPT)
    torch.testing.assert_close(exact, expected, rtol=ROUNDING, atol=ROUNDING * float(expected.abs().max()))
    assert 0 < float((rounded - expected).norm()) < LARGEST_SHARE * float(expected.norm())
    assert held < 0.5 * numbers.spec.memory.weight_bytes


def test_layer_by_layer_and_fused_products_of_blocks_agree(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "qwen3", **FAMILIES["qwen3"])
    path = convert(tmp_path / "folder", tmp_path / "model.gguf", mixed)
    found, expected = (prompt_logits(load(path, kernels=kernels), PROMPT) for kernels in ("torch", "auto"))
    torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=ROUNDING * float(expected.abs().max()))
