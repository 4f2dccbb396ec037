"""Parameters are counted as they are without packing."""

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from headrace.engine.vllm.parameter_count import count_parameters


def test_packed_weights_count_as_weights_and_scales_not_at_all(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {
        "embed.weight": np.zeros((10, 8), np.float32),
        "up.qweight": np.zeros((8, 2), np.int32),
        "up.qzeros": np.zeros((1, 2), np.int32),
        "up.scales": np.zeros((1, 16), np.float16),
        "up.g_idx": np.zeros(8, np.int32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    assert count_parameters(tmp_path, {"quantization_config": {"bits": 4}}) == 10 * 8 + 8 * 16
    groups = {"group_0": {"weights": {"num_bits": 4}}}
    save_file({"up.weight_packed": tensors["up.qweight"]}, tmp_path / "model.safetensors")
    assert count_parameters(tmp_path, {"quantization_config": {"config_groups": groups}}) == 8 * 16
