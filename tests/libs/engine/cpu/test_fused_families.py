"""Every family on the fused kernels: what torch computes, and the same bits in any circumstances."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.checkpoints.families.oracles import Oracle, check_against_transformers, prompt_logits
from tests.libs.engine.determinism.covering_array import cover_pairs
from tests.libs.engine.determinism.test_one_text import TINY_FACTORS, alone, load, run_in_order, tiny_requests
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.library import available
from headrace.engine.loading.load_text_engine import load_text_engine

pytestmark = needs_kernels

HEAD: dict[str, Any] = {"head_dim": 32}
"""Fused kernels take heads of a multiple of 16 elements."""
FAMILIES: dict[str, dict[str, Any]] = {
    "gemma2": HEAD,
    "gemma2_uncapped": {},
    "gemma3": HEAD,
    "mixtral": {},
    "mixtral_windows": {},
    "qwen3_moe": HEAD,
    "qwen3_moe_sparse": {},
}
TOLD_APART = ("gemma2", "gemma3", "qwen3_moe")
PROMPTS = make_prompts((3, 40, 150))
ROUNDING = 2e-6
"""Largest difference of two orders of sums in fp32, as a share of the largest logit."""


def make(folder: Path, name: str, **settings: Any) -> Any:
    return make_family(folder, name, **(FAMILIES[name] | settings))


def fused(folder: Path, **settings: Any) -> TextEngine:
    usual = {"max_step_token_count": 64, "block_count": 256, "thread_count": 1}
    engine = load_text_engine(folder, engine_config(**(usual | settings)))
    assert isinstance(engine._runner, CpuRunner)
    return engine


def through_torch(folder: Path, **settings: Any) -> TextEngine:
    config = engine_config(kernels="torch", max_step_token_count=64, block_count=256, thread_count=1, **settings)
    return load_text_engine(folder, config)


def greedy(engine: TextEngine, count: int = 12) -> dict[str, list[int]]:
    requests = [request(str(i), prompt, max_tokens=count, temperature=0.0) for i, prompt in enumerate(PROMPTS)]
    return run(engine, *requests)


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_weights_give_what_torch_and_transformers_give(name: str, tmp_path: Path) -> None:
    model = make(tmp_path, name)
    engine, oracle = fused(tmp_path), through_torch(tmp_path)
    found, expected = (prompt_logits(each, PROMPTS[2]) for each in (engine, oracle))
    assert float((found - expected).abs().max() / expected.abs().max()) <= ROUNDING
    assert greedy(engine) == greedy(oracle)
    check_against_transformers(engine, Oracle(tmp_path, model), PROMPTS)


@pytest.mark.parametrize("name", TOLD_APART)
@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_codes_multiplied_exactly_give_what_torch_gives(precision: Any, name: str, tmp_path: Path) -> None:
    make(tmp_path, name, intermediate_size=96, moe_intermediate_size=64)
    settings = {"precision": precision, "exact": True}
    engine, oracle = fused(tmp_path, **settings), through_torch(tmp_path, **settings)
    found, expected = (prompt_logits(each, PROMPTS[1]) for each in (engine, oracle))
    assert float((found - expected).abs().max() / expected.abs().max()) <= 10 * ROUNDING


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int4"])
@pytest.mark.parametrize("name", TOLD_APART)
def test_a_second_start_takes_the_packed_weights(
    name: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    folder, settings = tmp_path / "model", {"packed_folder": tmp_path / "packed", "precision": precision}
    make(folder, name, intermediate_size=96, moe_intermediate_size=64)
    first = prompt_logits(fused(folder, **settings), PROMPTS[2])
    monkeypatch.setattr("headrace.engine.cpu.load._read_weights", lambda *_, **__: pytest.fail("it was packed again"))
    second = fused(folder, **settings)
    assert torch.equal(prompt_logits(second, PROMPTS[2]), first)


@pytest.mark.parametrize("precision", ["auto", "float16", "int4"])
@pytest.mark.parametrize("name", TOLD_APART)
def test_every_instruction_set_gives_the_same_bits(name: str, precision: Any, tmp_path: Path) -> None:
    make(tmp_path, name, intermediate_size=96, moe_intermediate_size=64)
    found = []
    for instructions in available():
        engine: Any = fused(tmp_path, precision=precision)
        engine._runner._kernels = KernelChoice(((1, instructions),))
        found.append(prompt_logits(engine, PROMPTS[1]))
    assert len(found) > 1
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("precision", ["auto", "bfloat16", "int4"])
@pytest.mark.parametrize("name", TOLD_APART)
def test_batch_chunks_cache_drafts_and_preemption_change_nothing(name: str, precision: Any, tmp_path: Path) -> None:
    make(tmp_path, name, intermediate_size=96, moe_intermediate_size=64)
    settings = {"precision": precision}
    expected = alone(tmp_path, "auto", tiny_requests(), settings)
    preemption_count = 0
    for row in cover_pairs(TINY_FACTORS, seed=1):
        engine = load(tmp_path, "auto", row, settings)
        assert isinstance(engine._runner, CpuRunner)
        assert run_in_order(engine, tiny_requests(), str(row["order"])) == expected, row
        preemption_count += engine.stats().preemption_count
    assert preemption_count > 0


@pytest.mark.parametrize("name", TOLD_APART)
def test_threads_change_nothing(name: str, tmp_path: Path) -> None:
    make(tmp_path, name)
    one, two = (prompt_logits(fused(tmp_path, thread_count=count), PROMPTS[2]) for count in (1, 2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_1])
@pytest.mark.parametrize("name", TOLD_APART)
def test_blocks_of_gguf_stay_blocks(name: str, kind: Kind, tmp_path: Path) -> None:
    # GGUF has no mixture of experts with dense layers.
    make(tmp_path, name, intermediate_size=96, moe_intermediate_size=64, mlp_only_layers=[])
    path = convert(tmp_path, tmp_path / "model.gguf", kind)
    engine: Any = fused(path, exact=True)
    matrices = engine._runner._decoder._weights.matrices
    assert {matrix.storage.name for key, matrix in matrices.items() if "router" not in key} == {kind.name}
    found, expected = (prompt_logits(each, PROMPTS[1]) for each in (engine, through_torch(path, exact=True)))
    assert float((found - expected).abs().max() / expected.abs().max()) <= 10 * ROUNDING
    assert greedy(engine) == greedy(through_torch(path, exact=True))
