"""Families that came later against transformers, on the fused kernels and through torch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.checkpoints.families.oracles import (
    Oracles,
    check_against_transformers,
    finish_all,
    load,
    prompt_logits,
)
from tests.libs.engine.engine_running import DEFAULTS, request, tokens
from tests.libs.engine.later_models import COMPOSED, FUSED
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.tiny_quantized import Method, quantize_projections

from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.engines.text_engine import TextEngine

PROMPTS = make_prompts((3, 40, 150))
"""Shorter and longer than the window of 24, a chunk of 64 and a tile of 128 keys."""
ROUNDING = 2e-5
"""Largest difference of sums of dequantized weights in other orders, as a share of the largest logit."""
ENDINGS = (
    *("q_proj", "k_proj", "o_proj", "gate_up_proj", "input_linear", "output_linear", "c_fc", "c_proj"),
    *("query_key_value", "dense", "dense_4h_to_h"),
)
"""Names of some products of all these families."""
BY_ROW = (
    "gpt_oss",
    "gemma3n",
    "gemma4",
    "gemma4_moe",
    "deepseek3",
    "glm4",
    "mistral3",
    "granite",
    "hunyuan_moe",
    "olmo2",
    "cohere2",
    "starcoder2",
    "nemotron",
    "apertus",
    "gpt_neox",
    "falcon_40b",
    "nanochat",
    "llama4",
)
"""Together, all code that the others share."""


def is_fused(engine: TextEngine) -> bool:
    return isinstance(engine._runner, CpuRunner)


@pytest.mark.parametrize(
    ("name", "each_kernel"),
    [*((name, kernels) for name in FUSED for kernels in ("auto", "torch")), *((name, "auto") for name in COMPOSED)],
    indirect=["each_kernel"],
)
def test_later_families_equal_transformers(name: str, each_kernel: str, oracles: Oracles) -> None:
    """Models that the fused kernels do not compute go through torch in either way."""
    oracle = oracles.family(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS)


@pytest.mark.parametrize(("name", "each_kernel"), [(name, "rows") for name in BY_ROW], indirect=["each_kernel"])
def test_row_by_row_gives_the_same(name: str, each_kernel: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS[:2])


@pytest.mark.parametrize(("name", "each_kernel"), [(name, "device") for name in BY_ROW], indirect=["each_kernel"])
def test_as_on_a_gpu_gives_the_same(name: str, each_kernel: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS)


@pytest.mark.parametrize("name", [*COMPOSED, "granite_moe_shared"])
def test_batches_and_chunks_change_nothing(name: str, oracles: Oracles) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    folder = oracles.family(name).folder
    sampling: dict[str, Any] = {"max_tokens": 4, "temperature": 0.0, "logprob_count": 1}
    requests = [request(str(index), prompt, **sampling) for index, prompt in enumerate(PROMPTS)]
    engine = load(folder, prefix_cache=False, max_step_token_count=256)
    alone = {each.request_id: finish_all(engine, [each])[each.request_id] for each in requests}
    together = finish_all(load(folder, max_step_token_count=16), requests)
    for name, wanted in alone.items():
        assert tokens(together[name]) == tokens(wanted)
        assert [d.logprobs for d in together[name]] == [d.logprobs for d in wanted]


@needs_kernels
@pytest.mark.parametrize(
    "name", ["granite_hybrid", "glm4", "ernie4_5_biased", "smollm3", "gemma3_multimodal", "granite_moe_shared"]
)
@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_codes_multiplied_exactly_give_what_torch_gives(precision: str, name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name, **({} if name == "gemma3_multimodal" else {"intermediate_size": 96}))
    fused = load(tmp_path, precision=precision, exact=True)
    assert is_fused(fused)
    oracle = load(tmp_path, precision=precision, exact=True, kernels="torch")
    found, expected = (prompt_logits(each, PROMPTS[1]) for each in (fused, oracle))
    assert float((found - expected).abs().max() / expected.abs().max()) <= ROUNDING


@pytest.mark.parametrize("method", ["awq", "gptq", "compressed-tensors"])
@pytest.mark.parametrize("name", ["granite_hybrid", "glm4", "ernie4_5", "mistral3", "olmo2", "starcoder2", "gpt_neox"])
def test_quantized_checkpoints_are_read_by_the_names_of_the_family(name: str, method: Method, tmp_path: Path) -> None:
    sizes = {"shared_intermediate_size": 96} if name == "granite_hybrid" else {"intermediate_size": 96}
    make_family(tmp_path, name, **({} if name == "mistral3" else sizes))
    plain = prompt_logits(load(tmp_path), PROMPTS[1])
    quantize_projections(tmp_path, method, tuple(f"{ending}.weight" for ending in ENDINGS))
    found = [prompt_logits(load(tmp_path, exact=True, kernels=kernels), PROMPTS[1]) for kernels in ("auto", "torch")]
    assert float((found[0] - found[1]).abs().max() / found[1].abs().max()) <= ROUNDING
    difference = float((found[0] - plain).norm() / plain.norm())
    # Tests give GPTQ's groups an order of their own, which makes another model.
    assert 0 < difference < {"awq": 0.6, "compressed-tensors": 0.1, "gptq": 1.5}[method]


@needs_kernels
@pytest.mark.parametrize("name", ["granite", "glm4", "smollm3_windows"])
def test_a_second_start_takes_the_packed_weights(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    folder, settings = tmp_path / "model", {"packed_folder": tmp_path / "packed", **DEFAULTS}
    make_family(folder, name)
    first = prompt_logits(load(folder, **settings), PROMPTS[1])
    monkeypatch.setattr("headrace.engine.cpu.load._read_weights", lambda *_, **__: pytest.fail("it was packed again"))
    assert torch.equal(prompt_logits(load(folder, **settings), PROMPTS[1]), first)


@needs_kernels
@pytest.mark.parametrize("name", [*FUSED, *COMPOSED])
def test_blocks_decide_who_computes_and_parameters_are_counted_once(
    name: str, oracles: Oracles, caplog: pytest.LogCaptureFixture
) -> None:
    oracle = oracles.family(name)
    with caplog.at_level("INFO"):
        engine = load(oracle.folder)
    assert is_fused(engine) == (name in FUSED)
    reasons = [getattr(record, "reason", "") for record in caplog.records]
    assert any("which the fused kernels do not compute" in reason for reason in reasons) == (name in COMPOSED)
    others = ("vision", "multi_modal_projector")
    counted = sum(p.numel() for key, p in oracle.model.named_parameters() if not any(other in key for other in others))
    # The numbers beta and eps of xIELU, those of routers and the factors of layers are no parameters there.
    numbers = ("act_fn", "correction_bias", "layer_scalar")
    fixed = sum(buffer.numel() for key, buffer in oracle.model.named_buffers() if any(part in key for part in numbers))
    assert engine.spec.parameter_count == counted + fixed
