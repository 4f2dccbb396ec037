"""A tiny quantized model says the same through the kernels for GPUs as through those for CPUs, exact."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import DEFAULTS, as_on_a_gpu, engine_config, request, run
from tests.libs.engine.tiny_models import make_prompts, save_random

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.torch.layers import triton_linear
from headrace.engine.triton.packed_codes import PackedCodes
from headrace.engine.triton.quantized_product import multiply
from headrace.offline.quantization.writer import awq_config, awq_tensors, gptq_config, gptq_tensors

GROUP = 32


def quantize_tiny(folder: Path, method: str) -> None:
    """Saves a tiny Llama whose projections are quantized. GPTQ's inputs are in an order of their own (desc_act)."""
    config = awq_config(GROUP) if method == "awq" else gptq_config(4, GROUP, True)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}
    save_random(folder, {"model_type": "llama", **sizes})
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]:
        matrix = round_to_nearest.quantize(tensors.pop(f"{name}.weight").float(), 4, GROUP, method == "gptq")
        tensors |= awq_tensors(name, matrix) if method == "awq" else gptq_tensors(name, matrix)
        if method == "gptq":
            groups = tensors[f"{name}.g_idx"]
            generator = torch.Generator().manual_seed(len(groups))
            tensors[f"{name}.g_idx"] = groups[torch.randperm(len(groups), generator=generator)]
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    write_quantization(folder, config)


def write_quantization(folder: Path, config: Mapping[str, Any]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": config}))


def generate(folder: Path) -> dict[str, list[int]]:
    engine = load_text_engine(folder, engine_config(block_count=64, max_running_count=4, exact=True, **DEFAULTS))
    prompts = make_prompts((3, 5))
    requests = [request(str(index), prompt, max_tokens=4, temperature=0) for index, prompt in enumerate(prompts)]
    found = run(engine, *requests)
    engine.close()
    return found


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_the_tokens_are_those_of_the_exact_cpu_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    quantize_tiny(tmp_path, method)
    expected = generate(tmp_path)
    assert all(len(tokens) == 4 for tokens in expected.values())
    shapes: list[tuple[int, int]] = []

    def counted(weight: PackedCodes, *operands: Any) -> torch.Tensor:
        shapes.append((weight.out_size, weight.in_size))
        return multiply(weight, *operands)

    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr(triton_linear, "multiply", counted)
    assert generate(tmp_path) == expected
    assert {(128, 64), (64, 64), (192, 64), (64, 96)} <= set(shapes)
