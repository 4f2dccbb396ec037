"""The engine on torch with an adapter against PEFT on the same model. The fused kernels have tests of their own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config, run
from tests.libs.engine.greedy_oracle import likeliest_tokens
from tests.libs.engine.tiny_adapters import make_adapter, prompt_logprobs, relative_error, request
from tests.libs.engine.tiny_models import make_family, make_oracle, make_prompts

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.quantization.writer import gptq_config, gptq_tensors

PROMPTS = make_prompts((9, 33, 70))
TOLERANCE = 1e-4
ATTENTION = ["q_proj", "v_proj", "o_proj"]

KINDS: dict[str, dict[str, Any]] = {
    "all": {},
    "query and value": {"target_modules": ["q_proj", "v_proj"], "r": 1},
    "pattern": {"target_modules": r".*layers\.[12]\..*\.(k_proj|down_proj|up_proj)", "r": 16},
    "stable rank": {"use_rslora": True, "r": 6},
    "rank patterns": {
        "target_modules": ["q_proj", "gate_proj", "down_proj"],
        "rank_pattern": {r"layers\.0\.self_attn\.q_proj": 2, "gate_proj": 7},
        "alpha_pattern": {"q_proj": 3, r"^model\.layers\.1\.mlp\.down_proj": 20},
    },
    "some layers": {"target_modules": ["o_proj", "up_proj"], "layers_to_transform": [0, 2]},
    "named layers": {"target_modules": ["k_proj"], "layers_to_transform": 1, "layers_pattern": "layers"},
    "excluded": {"exclude_modules": ["gate_proj", r"model.layers.1.self_attn.q_proj"]},
}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


def load(folder: Path, adapter: Path, thread_count: int = 1) -> TextEngine:
    return load_text_engine(
        folder,
        engine_config(
            adapters={"tuned": adapter},
            kernels="torch",
            exact=True,
            thread_count=thread_count,
            block_count=64,
            max_step_token_count=32,
        ),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_adapter(tmp_path: Path, kind: str) -> None:
    base = make_family(tmp_path / "base", "qwen2")
    model = make_adapter(tmp_path / "adapter", base, **KINDS[kind])
    engine = load(tmp_path / "base", tmp_path / "adapter")
    assert relative_error(model, PROMPTS[2], prompt_logprobs(engine, PROMPTS[2], "tuned")) < TOLERANCE
    assert relative_error(base, PROMPTS[2], prompt_logprobs(engine, PROMPTS[2], "tuned")) > 100 * TOLERANCE
    assert relative_error(base, PROMPTS[2], prompt_logprobs(engine, PROMPTS[2], "")) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("grouped", {}),
        ("multi_query_bias", {}),
        ("llama3_rope", {}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("phi3", {}),
        ("phi3", {"target_modules": ["qkv_proj", "down_proj"]}),
        ("gemma2", {}),
        ("mixtral", {"target_modules": ATTENTION}),
        ("qwen3_moe", {"target_modules": ATTENTION}),
    ],
)
def test_every_family_of_models(tmp_path: Path, family: str, settings: dict[str, Any], thread_count: int) -> None:
    folder = tmp_path / "base"
    is_llama = family in ("grouped", "multi_query_bias", "llama3_rope")
    base = make_oracle(folder, family) if is_llama else make_family(folder, family)
    model = make_adapter(tmp_path / "adapter", base, **settings)
    engine = load(folder, tmp_path / "adapter", thread_count)
    for prompt in PROMPTS:
        assert relative_error(model, prompt, prompt_logprobs(engine, prompt, "tuned")) < TOLERANCE
    requests = [
        request(f"{name}{i}", p, name, max_tokens=16, temperature=0.0)
        for name in ("tuned", "")
        for i, p in enumerate(PROMPTS)
    ]
    out = run(engine, *requests)
    for index, prompt in enumerate(PROMPTS):
        for oracle, found in ((model, out[f"tuned{index}"]), (base, out[str(index)])):
            assert len(found) == 16
            assert found == likeliest_tokens(oracle, prompt, found)


def test_a_quantized_base_keeps_its_weights_and_the_adapter_is_added(tmp_path: Path) -> None:
    """The oracle has the very weights that the codes stand for."""
    folder = tmp_path / "base"
    base = make_oracle(folder, "grouped")
    tensors = load_file(folder / "model.safetensors")
    for name, module in base.named_modules():
        if name.endswith("_proj") and "self_attn" in name:
            matrix = round_to_nearest.quantize(tensors.pop(f"{name}.weight"), 4, 32, symmetric=True)
            module.weight.data = matrix.dequantize()
            tensors |= gptq_tensors(name, matrix)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(gptq_config(4, 32, symmetric=True))
    (folder / "config.json").write_text(json.dumps(config))
    model = make_adapter(tmp_path / "adapter", base)
    engine = load(folder, tmp_path / "adapter")
    for prompt in PROMPTS:
        assert relative_error(model, prompt, prompt_logprobs(engine, prompt, "tuned")) < TOLERANCE
    out = run(engine, request("r", PROMPTS[1], "tuned", max_tokens=16, temperature=0.0))
    assert len(out["r"]) == 16
    assert out["r"] == likeliest_tokens(model, PROMPTS[1], out["r"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_adapters_in_half_precision_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    base = make_family(tmp_path / "base", "qwen2")
    model = make_adapter(tmp_path / "adapter", base)
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    halves = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
    save_file(halves, path)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(dtype).float()
    engine = load(tmp_path / "base", tmp_path / "adapter")
    assert relative_error(model, PROMPTS[1], prompt_logprobs(engine, PROMPTS[1], "tuned")) < TOLERANCE


def test_arithmetic_in_bfloat16_runs(tmp_path: Path) -> None:
    base = make_family(tmp_path / "base", "qwen2")
    make_adapter(tmp_path / "adapter", base)
    tuned = {"tuned": tmp_path / "adapter"}
    config = engine_config(adapters=tuned, precision="bfloat16", kernels="torch", block_count=64)
    engine = load_text_engine(tmp_path / "base", config)
    assert len(run(engine, request("r", PROMPTS[1], "tuned", max_tokens=8))["r"]) == 8
