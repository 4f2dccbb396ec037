"""Tiny models say the same through the kernels for GPUs as through those for CPUs, exact."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config, finish, request, run
from tests.libs.engine.gguf_blocks import KINDS, q4_k_m, write_model
from tests.libs.engine.gguf_files import Kind
from tests.libs.engine.tiny_floats import FORMS, Form, round_to_floats
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family, make_prompts, save_random
from tests.libs.engine.tiny_mxfp4 import make_mxfp4
from tests.libs.engine.tiny_quantized import Method, quantize_projections
from tests.libs.engine.triton.device import DEVICE, HAS_GPU
from tests.libs.engine.triton.tiny_quantized import METHODS, SIZES, quantize_tiny
from torch import Tensor

from headrace.engine.checkpoints.weights.round_to_nearest import quantize
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.gpu.attention import triton_attention
from headrace.engine.gpu.operators import grouped_experts, triton_linear
from headrace.engine.kv.block_exchange import exchange_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.quantized_product import ProductKernel, gated_product, multiply, split_product
from headrace.kv.block_hash import hash_blocks

THOROUGH = [pytest.param(family, marks=pytest.mark.thorough) for family in ("qwen3", "phi3_short")]
PROMPTS = make_prompts((37, 3, 20))


BLOCK_SIZES: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 512,
    "hidden_size": 256,
    "num_hidden_layers": 1,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}


def every_kind(name: str, layer: int, _layer_count: int) -> Kind:
    """Gives each tensor blocks of another kind."""
    order = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output", "token_embd")
    return KINDS[(order.index(name) + layer) % len(KINDS)]


def load(folder: Path, **settings: Any) -> TextEngine:
    """An engine that reads the longest prompt in two chunks, beside the decodes of others."""
    usual: dict[str, Any] = {"block_count": 64, "max_running_count": 4, "max_step_token_count": 32, "thread_count": 1}
    if settings.get("kernels") == "triton":
        # On a GPU, `auto` would compute in 16 bits, and hold the head in 8.
        usual |= {"device": str(DEVICE), "exact": True} | ({"precision": "float32"} if HAS_GPU else {})
    return load_text_engine(folder, engine_config(**(usual | settings)))


def generate(engine: TextEngine) -> list[dict[str, list[int]]]:
    """The tokens of all prompts together, and then of the longest one, of which two blocks are cached."""
    requests = [request(str(index), prompt, max_tokens=4, temperature=0) for index, prompt in enumerate(PROMPTS)]
    return [run(engine, *requests), run(engine, requests[0])]


def noted(kernel: Callable[..., Tensor], calls: list[str]) -> Callable[..., Tensor]:
    """The same function, which leaves its name in `calls`."""

    def attend(*operands: Any) -> Tensor:
        calls.append(kernel.__name__)
        return kernel(*operands)

    return attend


def watch_products(patch: pytest.MonkeyPatch) -> set[tuple[tuple[int, int], ProductKernel]]:
    """Has the products of layers note the size [out, in] of their weight, and their kernel."""
    products: set[tuple[tuple[int, int], ProductKernel]] = set()

    def noted_product(function: Callable[..., Any]) -> Callable[..., Any]:
        def compute(weight: PackedCodes, *operands: Any) -> Any:
            products.add(((weight.out_size, weight.in_size), operands[-1]))
            return function(weight, *operands)

        return compute

    for function in (multiply, split_product, gated_product):
        patch.setattr(triton_linear, function.__name__, noted_product(function))
    return products


@pytest.mark.parametrize("method", METHODS)
def test_the_tokens_are_those_of_the_exact_cpu_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    quantize_tiny(tmp_path, method)
    expected = generate(load(tmp_path, exact=True))
    assert all(len(tokens) == 4 for tokens in expected[0].values())
    assert expected[1]["0"] == expected[0]["0"]
    calls: list[str] = []
    products = watch_products(monkeypatch)
    for name in ("attend_decodes", "attend_spans"):
        monkeypatch.setattr(triton_attention, name, noted(getattr(triton_attention, name), calls))
    engine = load(tmp_path, kernels="triton")
    assert generate(engine) == expected
    assert engine.stats().prefix_hit_token_count == 32
    assert {(128, 64), (64, 64), (192, 64), (64, 96)} <= {shape for shape, _ in products}
    assert set(calls) == {"attend_decodes", "attend_spans"}


def test_the_head_is_held_in_8_bits_beside_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantize_tiny(tmp_path, "awq", tie_word_embeddings=False)
    products = watch_products(monkeypatch)
    found = generate(load(tmp_path, kernels="triton", exact=False))
    assert (VOCAB_SIZE, 64) in {shape for shape, _ in products}
    weights = load_file(tmp_path / "model.safetensors")
    rounded = quantize(weights["lm_head.weight"].float(), 8, 64, symmetric=False)
    save_file(weights | {"lm_head.weight": rounded.dequantize()}, tmp_path / "model.safetensors")
    assert generate(load(tmp_path, exact=True)) == found


@pytest.mark.parametrize("form", FORMS)
def test_floating_point_codes_give_the_tokens_of_their_numbers(tmp_path: Path, form: Form) -> None:
    """The exact CPU path computes with the numbers that the codes stand for."""
    save_random(tmp_path, {"model_type": "llama", **SIZES})
    round_to_floats(tmp_path, form)
    expected = generate(load(tmp_path, exact=True))
    engine = load(tmp_path, kernels="triton")
    assert engine.spec.precision.startswith("fp4" if "fp4" in form else "fp8")
    assert generate(engine) == expected


@pytest.mark.parametrize("mix", [q4_k_m, every_kind])
def test_blocks_of_gguf_are_multiplied_by_their_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mix: Callable[[str, int, int], Kind]
) -> None:
    """A matrix may have several kinds, and the head has blocks too."""
    path = write_model(tmp_path / "model.gguf", BLOCK_SIZES, mix)
    expected = generate(load(path, exact=True))
    products = watch_products(monkeypatch)
    assert generate(load(path, kernels="triton")) == expected
    assert {(512, 256), (256, 256), (1024, 256), (256, 512)} <= {shape for shape, _ in products}


@pytest.mark.parametrize(("method", "is_grouped"), [("awq", True), ("gptq", False)])
def test_experts_are_computed_together_where_they_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method, is_grouped: bool
) -> None:
    """GPTQ's have inputs in an order of their own each."""
    make_family(tmp_path, "qwen3_moe", num_hidden_layers=2, intermediate_size=96, moe_intermediate_size=64)
    quantize_projections(tmp_path, method)
    expected = generate(load(tmp_path, exact=True))
    calls: list[str] = []
    for name in ("gate_grouped", "multiply_grouped"):
        monkeypatch.setattr(grouped_experts, name, noted(getattr(grouped_experts, name), calls))
    assert generate(load(tmp_path, kernels="triton")) == expected
    assert set(calls) == ({"gate_grouped", "multiply_grouped"} if is_grouped else set())


def test_gpt_oss_with_mxfp4_gives_the_tokens_of_the_exact_cpu_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_mxfp4(tmp_path)
    expected = generate(load(tmp_path, exact=True))
    products = watch_products(monkeypatch)
    assert generate(load(tmp_path, kernels="triton")) == expected
    assert {(192, 64), (64, 96)} <= {shape for shape, _ in products}


def test_the_tokens_are_the_same_where_weights_are_dequantized_for_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of prompts are over the limit, decodes under it."""
    quantize_tiny(tmp_path, "gptq")
    expected = generate(load(tmp_path, exact=True))
    products = watch_products(monkeypatch)
    monkeypatch.setattr(triton_linear, "max_tiled_rows", lambda _: 4)
    assert generate(load(tmp_path, kernels="triton")) == expected
    assert {kernel for _, kernel in products} == {ProductKernel.NARROW, ProductKernel.DEQUANTIZED}


@pytest.mark.parametrize("family", ["gemma2", *THOROUGH])
def test_windows_caps_norms_and_partial_rotation(tmp_path: Path, family: str) -> None:
    make_family(tmp_path, family, num_hidden_layers=2)
    expected = generate(load(tmp_path, kernels="torch"))
    assert generate(load(tmp_path, kernels="triton")) == expected


@pytest.mark.parametrize(("precision", "share"), [("bfloat16", 1 / 2), ("int8", 5 / 16), ("fp8", 5 / 16)])
def test_keys_and_values_are_kept_as_asked(tmp_path: Path, precision: str, share: float) -> None:
    """Heads have 16 elements, and their codes a scale of 4 bytes. Log-probabilities are near, but not the same."""
    make_family(tmp_path, "llama", num_hidden_layers=1)
    whole = load(tmp_path, kernels="triton")
    engine = load(tmp_path, kernels="triton", kv_precision=precision)
    kept = engine.spec.memory.kv_bytes
    assert kept == whole.spec.memory.kv_bytes * share
    each = request("r", PROMPTS[1], max_tokens=1, temperature=0, logprob_count=1)
    found = []
    for one in (whole, engine):
        one.add(each)
        found.append(finish(one)["r"][0].logprobs[0].logprob)
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], abs=0.2)


def test_blocks_of_another_engine_give_the_same_tokens(tmp_path: Path) -> None:
    make_family(tmp_path, "llama")
    source, target = (load(tmp_path, kernels="triton") for _ in range(2))
    ours, theirs = exchange_of(source), exchange_of(target)
    assert ours is not None
    assert theirs is not None
    assert ours.layout == theirs.layout
    each = request("r", PROMPTS[0], max_tokens=4, temperature=0)
    expected = run(source, each)
    hashes = hash_blocks(PROMPTS[0], source.spec.block_size, "")
    lease = ours.lease(hashes)
    theirs.release(theirs.import_blocks(hashes, ours.export(lease, 0, len(hashes))))
    ours.release(lease)
    assert run(target, each) == expected
    assert target.stats().prefix_hit_token_count == 32
