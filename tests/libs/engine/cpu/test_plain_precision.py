"""Plain weights in bfloat16 and float16 on the fused kernels: half the memory, numbers of weights so rounded."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import prompt_logits
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_encoders import make_encoder
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.tiny_quantized import quantize_projections

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.cpu.encoder.cpu_encoder import CpuEncoder
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.storage import Storage
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import ConfigError

pytestmark = needs_kernels
(PROMPT,) = make_prompts((90,))
TYPES = {"bfloat16": (torch.bfloat16, Storage.BF16), "float16": (torch.float16, Storage.F16)}
"""Precisions, with torch's and the kernels' names of them."""
FAMILIES: dict[str, dict[str, Any]] = {"llama": {}, "qwen2": {}, "gemma3": {"head_dim": 32}, "mixtral": {}}
each_precision = pytest.mark.parametrize("precision", TYPES)


def load(folder: Path, **settings: Any) -> TextEngine:
    engine = load_text_engine(folder, engine_config(block_count=64, max_step_token_count=64, **settings))
    assert isinstance(engine._runner, CpuRunner)
    return engine


def storages(engine: Any) -> set[Storage]:
    """Types of all matrices and of the embedding."""
    weights = engine._runner._decoder._weights
    return {weights.embedding.storage} | {matrix.storage for matrix in weights.matrices.values()}


def round_matrices(path: Path, dtype: torch.dtype) -> None:
    """Rounds the matrices of a checkpoint, which stay stored in fp32."""
    tensors = load_file(path)
    save_file({name: each.to(dtype).float() if each.ndim > 1 else each for name, each in tensors.items()}, path)


@each_precision
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_weights_that_were_rounded_before(name: str, precision: str, tmp_path: Path) -> None:
    make_family(tmp_path, name, **FAMILIES[name])
    settings = {"kv_precision": "float32"}
    usual, found = (prompt_logits(load(tmp_path, precision=each, **settings), PROMPT) for each in ("auto", precision))
    dtype, storage = TYPES[precision]
    round_matrices(tmp_path / "model.safetensors", dtype)
    assert torch.equal(found, prompt_logits(load(tmp_path, **settings), PROMPT))
    assert not torch.equal(found, usual)
    assert storages(load(tmp_path, precision=precision)) == {storage}


@each_precision
def test_weights_keys_and_values_take_half_the_memory(precision: str, tmp_path: Path) -> None:
    make_family(tmp_path, "llama", hidden_size=256, intermediate_size=512)
    usual, half = (load(tmp_path, precision=each).spec for each in ("auto", precision))
    assert half.memory.kv_bytes * 2 == usual.memory.kv_bytes
    assert half.memory.weight_bytes < 0.51 * usual.memory.weight_bytes
    assert half.precision == precision


def test_a_checkpoint_of_that_precision_loses_nothing(tmp_path: Path) -> None:
    model = make_family(tmp_path, "qwen2")
    model.bfloat16().save_pretrained(tmp_path)
    found = prompt_logits(load(tmp_path, precision="bfloat16"), PROMPT)
    assert torch.equal(found, prompt_logits(load(tmp_path, kv_precision="bfloat16"), PROMPT))


@each_precision
def test_files_of_gguf_become_plain_weights(precision: str, tmp_path: Path) -> None:
    make_family(tmp_path, "llama", intermediate_size=96)
    path = convert(tmp_path, tmp_path / "model.gguf", Kind.Q8_0)
    found = load(path, precision=precision)
    assert storages(found) == {TYPES[precision][1]}
    assert found.spec.precision == precision


@each_precision
def test_quantized_weights_stay_as_they_are(precision: str, tmp_path: Path) -> None:
    make_family(tmp_path, "llama", hidden_size=128, intermediate_size=256)
    quantize_projections(tmp_path, "awq")
    found = load(tmp_path, precision=precision)
    assert found.spec.precision == "int4 (awq)"
    assert storages(found) == {TYPES[precision][1], Storage.U4, Storage.U8}
    assert found.spec.memory.kv_bytes == load(tmp_path).spec.memory.kv_bytes


@each_precision
def test_embeddings_of_encoders_are_those_of_weights_that_were_rounded_before(precision: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")

    def embed(precision: str) -> tuple[float, ...]:
        engine: Any = load_engine(tmp_path, engine_config(precision=precision))
        assert isinstance(engine._encoder, CpuEncoder)
        engine.add(EngineRequest("r", PROMPT[:40], SamplingParams()))
        (delta,) = engine.step()
        return tuple(delta.embedding)

    usual, found = embed("auto"), embed(precision)
    path, (dtype, _) = tmp_path / "model.safetensors", TYPES[precision]
    positions = {name: each for name, each in load_file(path).items() if "position" in name or "token_type" in name}
    round_matrices(path, dtype)
    save_file(load_file(path) | positions, path)
    assert found == embed("auto") != usual


def test_a_weight_beyond_the_range_is_named(tmp_path: Path) -> None:
    make_family(tmp_path, "llama")
    path, name = tmp_path / "model.safetensors", "model.layers.1.mlp.down_proj"
    tensors = load_file(path)
    tensors[f"{name}.weight"][3, 4] = -70000.0
    save_file(tensors, path)
    message = rf"precision: weight {name} cannot be rounded: -70000 is beyond the range of float16; choose another"
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, precision="float16")
    load(tmp_path, precision="bfloat16")
