"""Two ranks that compute with the kernels for GPUs say what the exact CPU path says, in every format."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.harness.ended import wait_ended
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.gguf_blocks import q4_k_m, write_model
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers
from tests.libs.engine.tiny_floats import Form, round_to_floats
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family, make_prompts
from tests.libs.engine.tiny_mxfp4 import make_mxfp4
from tests.libs.engine.tiny_quantized import Method, quantize_projections
from tests.libs.engine.triton import interpreter

from headrace.engine.gpu.operators import grouped_experts, triton_linear
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import local_rendezvous

TENSOR = {"tensor_parallel_count": 2}
PIPELINE = {"pipeline_parallel_count": 2}
METHODS: tuple[Method, ...] = ("awq", "gptq", "int8", "compressed-tensors")
FORMS: tuple[Form, ...] = ("fp8", "mxfp4-pack-quantized", "nvfp4-pack-quantized")
HALVES: dict[str, Any] = {"num_hidden_layers": 1, "intermediate_size": 128, "head_dim": 32}
"""Sizes of which every half is made of whole groups."""
BLOCK_HALVES: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 512,
    "hidden_size": 512,
    "num_hidden_layers": 1,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
"""Sizes of which every half is made of whole blocks of 256 weights."""
PROMPTS = make_prompts((21, 3))


@pytest.fixture(scope="module")
def followers() -> Iterator[ForkedFollowers]:
    forking = ForkedFollowers(interpreter.__name__)
    yield forking
    forking.close()


@pytest.fixture(autouse=True)
def _forked(followers: ForkedFollowers, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has groups fork their followers from a process that has imported torch and repaired the interpreter."""
    started = SimpleNamespace(Popen=followers.start, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(local_rendezvous, "subprocess", started)
    yield
    left = wait_ended(followers.running(), END_SECONDS)
    assert left == []


def generate(source: Path, **settings: Any) -> dict[str, list[int]]:
    """Tokens of both prompts at once, of which the longer one is read in two chunks."""
    usual: dict[str, Any] = {
        "block_count": 32,
        "max_running_count": 4,
        "max_step_token_count": 16,
        "thread_count": 1,
        "exact": True,
    }
    engine = load_text_engine(source, engine_config(**(usual | settings)))
    try:
        asked = (request(str(at), prompt, max_tokens=3, temperature=0) for at, prompt in enumerate(PROMPTS))
        return run(engine, *asked)
    finally:
        engine.close()


def launches(patch: pytest.MonkeyPatch, owner: object, *names: str) -> set[str]:
    """Names of the functions that the first rank has called so far, of those named."""
    called: set[str] = set()

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*operands: Any) -> Any:
            called.add(name)
            return function(*operands)

        return call

    for name in names:
        patch.setattr(owner, name, noted(name, getattr(owner, name)))
    return called


@pytest.mark.parametrize("method", METHODS)
def test_integer_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method) -> None:
    make_family(tmp_path, "llama", **HALVES)
    quantize_projections(tmp_path, method)
    expected = generate(tmp_path)
    called = launches(monkeypatch, triton_linear, "multiply", "split_product", "gated_product")
    assert generate(tmp_path, kernels="triton", **TENSOR) == expected
    assert called


@pytest.mark.parametrize("form", FORMS)
def test_floating_point_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    make_family(tmp_path, "llama", **HALVES)
    round_to_floats(tmp_path, form)
    expected = generate(tmp_path)
    called = launches(monkeypatch, triton_linear, "multiply", "split_product", "gated_product")
    assert generate(tmp_path, kernels="triton", **TENSOR) == expected
    assert called


def test_blocks_of_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "model.gguf", BLOCK_HALVES, q4_k_m)
    expected = generate(path)
    called = launches(monkeypatch, triton_linear, "multiply", "split_product", "gated_product")
    assert generate(path, kernels="triton", **TENSOR) == expected
    assert called


@pytest.mark.parametrize("split", [TENSOR, PIPELINE], ids=["tensor", "pipeline"])
def test_a_mixture_of_experts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: dict[str, int]) -> None:
    """Ranks have a part of the width of every expert each, or whole layers."""
    sizes = {"num_hidden_layers": 2, "moe_intermediate_size": 64, "head_dim": 32}
    make_family(tmp_path, "qwen3_moe", **sizes, mlp_only_layers=[])
    quantize_projections(tmp_path, "awq")
    expected = generate(tmp_path)
    called = launches(monkeypatch, grouped_experts, "gate_grouped", "multiply_grouped")
    assert generate(tmp_path, kernels="triton", **split) == expected
    assert called == {"gate_grouped", "multiply_grouped"}


@pytest.mark.parametrize("split", [TENSOR, PIPELINE], ids=["tensor", "pipeline"])
def test_gpt_oss(tmp_path: Path, split: dict[str, int]) -> None:
    """Each rank has the sinks of its own heads, the whole router's bias, and the first one the biases of sums."""
    make_mxfp4(tmp_path, intermediate_size=128)
    assert generate(tmp_path, kernels="triton", **split) == generate(tmp_path)
