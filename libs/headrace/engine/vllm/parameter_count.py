"""Number of a checkpoint's parameters, from the headers of its files."""

import math
from pathlib import Path
from typing import Any

from safetensors import safe_open

WORD_BITS = 32
PACKED = ("qweight", "weight_packed")
"""Ends of names of tensors that hold several weights in each word."""
BESIDE = (
    "qzeros",
    "scales",
    "g_idx",
    "weight_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
    "input_scale",
)
"""Ends of names of what belongs to quantized weights and is no weight itself."""


def count_parameters(folder: Path, config: dict[str, Any]) -> int:
    """Counts weights, packed ones as they are without packing. `config`: the checkpoint's config.json. Without
    safetensors there is nothing to count, and the result is 0."""
    bits = _bits(config.get("quantization_config") or {})
    return sum(_count_in(path, bits) for path in sorted(folder.glob("*.safetensors")))


def _count_in(path: Path, bits: int) -> int:
    count = 0
    with safe_open(path, framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 - the file is no mapping
            if not name.endswith(BESIDE):
                size = math.prod(file.get_slice(name).get_shape())
                count += size * WORD_BITS // bits if name.endswith(PACKED) else size
    return count


def _bits(quantization: dict[str, Any]) -> int:
    groups = quantization.get("config_groups") or {}
    inner = next((group["weights"]["num_bits"] for group in groups.values() if group.get("weights")), WORD_BITS)
    return int(quantization.get("bits") or quantization.get("w_bit") or inner)
