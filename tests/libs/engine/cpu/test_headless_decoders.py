"""Decoders that make embeddings on the fused kernels: the vectors of torch's operations, in any batch, and no torch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_encoders import make_decoder
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.tiny_quantized import Method, quantize_projections

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import UNROUNDED, WeightRounding
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.cpu import load as cpu_load
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_key import Packing, packed_path
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.engine.engines.decoder_embedding_engine import DecoderEmbeddingEngine
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.library import available
from headrace.engine.kernels.storage import Storage
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.torch.runner import TorchRunner
from headrace.errors import InvalidCheckpoint

pytestmark = needs_kernels
PROMPTS = make_prompts((1, 2, 5, 31, 64, 100, 200))
EXACT = {"exact": True, "kv_precision": "float32"}
Vectors = list[tuple[float, ...]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_decoder(tmp_path / "model", hidden_size=64, intermediate_size=96)
    return tmp_path / "model"


def load(folder: Path, **settings: Any) -> DecoderEmbeddingEngine:
    defaults = {"max_step_token_count": 64, "block_count": 64, "packed_folder": None}
    engine = load_engine(folder, engine_config(**(defaults | settings)))
    assert isinstance(engine, DecoderEmbeddingEngine)
    return engine


def embed(engine: DecoderEmbeddingEngine, *prompts: tuple[int, ...]) -> Vectors:
    for index, prompt in enumerate(prompts):
        engine.add(EngineRequest(str(index), prompt, SamplingParams()))
    found: dict[str, tuple[float, ...]] = {}
    while engine.has_work():
        found |= {delta.request_id: delta.embedding for delta in engine.step()}
    return [found[str(index)] for index in range(len(prompts))]


@pytest.mark.parametrize(
    ("settings", "runner"),
    [
        ({}, CpuRunner),
        ({"precision": "int4"}, CpuRunner),
        ({"precision": "bfloat16"}, CpuRunner),
        ({"kernels": "torch"}, TorchRunner),
    ],
)
def test_the_rule_of_text_models_decides_what_computes(folder: Path, settings: dict[str, str], runner: type) -> None:
    assert type(load(folder, **settings)._runner) is runner


def test_plain_weights_have_the_bits_of_torchs_operations(folder: Path) -> None:
    assert embed(load(folder), *PROMPTS) == embed(load(folder, kernels="torch"), *PROMPTS)


@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_rounded_weights_have_the_bits_of_torchs_operations_if_exact(folder: Path, precision: str) -> None:
    expected = embed(load(folder, kernels="torch", precision=precision, exact=True), *PROMPTS)
    assert embed(load(folder, precision=precision, **EXACT), *PROMPTS) == expected
    for vector, other in zip(embed(load(folder, precision=precision), *PROMPTS), expected, strict=True):
        assert vector != other
        assert np.dot(vector, other) > 0.98


@pytest.mark.parametrize("method", ["awq", "gptq", "int8", "compressed-tensors"])
def test_quantized_checkpoints_have_the_bits_of_torchs_operations_if_exact(folder: Path, method: Method) -> None:
    quantize_projections(folder, method)
    expected = embed(load(folder, kernels="torch", exact=True), *PROMPTS)
    assert embed(load(folder, **EXACT), *PROMPTS) == expected
    for vector, other in zip(embed(load(folder), *PROMPTS), expected, strict=True):
        assert np.dot(vector, other) > 0.98


@pytest.mark.parametrize("precision", ["auto", "bfloat16", "int4"])
def test_batch_threads_and_instruction_set_change_no_bit(
    folder: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(folder, precision=precision, thread_count=1)
    alone = [embed(engine, prompt)[0] for prompt in PROMPTS]
    assert embed(engine, *PROMPTS) == alone
    assert embed(load(folder, precision=precision, thread_count=3, prefix_cache=False), *PROMPTS) == alone
    for instructions in available():
        choice = KernelChoice(((1, instructions),))
        monkeypatch.setattr(cpu_load, "choose_kernels", lambda *_, choice=choice, **__: choice)
        other = load(folder, precision=precision, max_step_token_count=2048, thread_count=1)
        assert embed(other, *reversed(PROMPTS)) == alone[::-1], instructions.name


@pytest.mark.parametrize("kv_precision", ["int8", "fp8", "bfloat16"])
def test_keys_and_values_are_kept_as_the_settings_say(folder: Path, kv_precision: str) -> None:
    engine, usual = load(folder, kv_precision=kv_precision), load(folder)
    assert engine.spec.memory.kv_bytes < usual.spec.memory.kv_bytes
    for vector, other in zip(embed(engine, *PROMPTS), embed(usual, *PROMPTS), strict=True):
        assert np.dot(vector, other) > 0.98


def test_a_missing_tensor_is_named(folder: Path) -> None:
    config = replace(read_model_config(folder), has_head=False, layer_count=4, windows=(None,) * 4)
    with pytest.raises(InvalidCheckpoint, match=r"tensor layers\.3\.input_layernorm\.weight is in none"):
        read_packed_weights(folder, config, UNROUNDED, exact=False)


def test_packed_weights_tell_a_model_without_a_head_from_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    make_decoder(tmp_path / "model", keeps_prefix=True)
    whole = read_model_config(tmp_path / "model")
    headless, packing = replace(whole, has_head=False), Packing(UNROUNDED, False, False)
    names = {packed_path(tmp_path, tmp_path / "model", config, packing).name for config in (whole, headless)}
    assert len(names) == 2
    cache, path = PackedWeightsCache(tmp_path, 1 << 30), tmp_path / "one.packed"
    for kept, other in ((whole, headless), (headless, whole)):
        cache.save(path, read_packed_weights(tmp_path / "model", kept, UNROUNDED, exact=False))
        assert cache.load(path, kept) is not None
        assert cache.load(path, other) is None


@pytest.mark.process
@pytest.mark.parametrize("precision", ["auto", "int4"])
def test_a_start_needs_no_torch_with_packed_weights_or_without(
    folder: Path, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    (expected,) = embed(load(folder, precision=precision, packed_folder=tmp_path / "packed"), PROMPTS[-1])
    assert list((tmp_path / "packed").glob("*.packed"))
    script = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.contract.engine_config import EngineConfig
for folder in (None, Path({str(tmp_path / "packed")!r})):
    config = EngineConfig(block_count=64, max_step_token_count=64, packed_folder=folder, precision={precision!r})
    engine = load_engine(Path({str(folder)!r}), config)
    engine.add(EngineRequest("r", {PROMPTS[-1]!r}, SamplingParams()))
    while engine.has_work():
        for delta in engine.step():
            print(*delta.embedding)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [tuple(map(float, line.split())) for line in lines] == [expected] * 2


def test_the_embedding_is_kept_as_the_checkpoint_has_it(folder: Path) -> None:
    weights = read_packed_weights(
        folder, replace(read_model_config(folder), has_head=False), WeightRounding(4), exact=False
    )
    assert weights.is_coded
    assert "head" not in weights.matrices
    assert weights.embedding.storage is Storage.F32
