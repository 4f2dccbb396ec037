"""Tiny random checkpoints in quantized formats."""

from pathlib import Path
from typing import Any

from tests.libs.engine.tiny_models import save_random
from tests.libs.engine.tiny_quantized import Method, quantize_projections

METHODS: tuple[Method, ...] = ("awq", "gptq", "int8")
SIZES = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}


def quantize_tiny(folder: Path, method: Method, **settings: Any) -> None:
    """Saves a tiny Llama whose projections are quantized."""
    save_random(folder, {"model_type": "llama", **SIZES, **settings})
    quantize_projections(folder, method)
