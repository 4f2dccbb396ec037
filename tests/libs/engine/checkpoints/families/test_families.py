"""Every architecture and every kind of rotary scaling against transformers, and against itself in other batches."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import DEFAULTS, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_models import (
    FAMILIES,
    ROPES,
    continue_greedily,
    make_family,
    make_prompts,
    save_random,
)
from transformers import PreTrainedModel

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.contract.request import Delta, EngineRequest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.step_logits import StepLogits

pytestmark = pytest.mark.usefixtures("each_kernel")

PROMPTS = make_prompts((3, 40, 150, 300))
"""Shorter and longer than the window of 24, a chunk of 64 and a tile of 128 keys."""
MAX_ERROR = 1e-4
MAX_LEN = {"phi3_short": 384, "phi3_long": 512}
TOLD_APART = ("qwen3", "mistral", "mistral_wide", "gemma2", "gemma3", "phi3_long", "mixtral_windows", "qwen3_moe")
"""Together, all code that the others share."""
EVERY_WAY = [
    *((name, kernels) for name in FAMILIES for kernels in ("auto", "torch", "device")),
    *((name, "rows") for name in TOLD_APART),
]
"""Families and ways to compute them. Row by row, a family takes as long as in all other ways."""


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 256, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


class Oracle:
    """A model in transformers. What it computes is kept for all kernels that are compared with it."""

    def __init__(self, folder: Path, model: PreTrainedModel) -> None:
        self.folder = folder
        self.model = model
        self.logits = cache(self._logits)
        self.continuation = cache(self._continuation)

    @torch.inference_mode()
    def _logits(self, prompt: tuple[int, ...]) -> torch.Tensor:
        return self.model(torch.tensor([prompt])).logits[0, :-1].float()

    def _continuation(self, prompt: tuple[int, ...]) -> list[int]:
        return continue_greedily(self.model, prompt, 12)


class Oracles:
    """One model of each family and of each rotary scaling."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.family = cache(self._family)
        self.scaled = cache(self._scaled)

    def _family(self, name: str) -> Oracle:
        folder = self._root / name
        return Oracle(folder, make_family(folder, name))

    def _scaled(self, name: str) -> Oracle:
        folder, rope = self._root / f"scaled {name}", {"rope_theta": 10000.0, **ROPES[name]}
        usual = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4}
        return Oracle(folder, save_random(folder, usual | {"rope_parameters": rope}))


@pytest.fixture(scope="module")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Oracles:
    return Oracles(tmp_path_factory.mktemp("oracles"))


def prompt_logits(engine: TextEngine, prompt: tuple[int, ...]) -> torch.Tensor:
    """[len(prompt) - 1, vocabulary], collected chunk by chunk."""
    runner, parts = engine._runner, []

    class Recorder:
        sampler = runner.sampler

        def run(self, plan: StepPlan) -> StepLogits:
            logits = runner.run(plan)
            scored = self.sampler.in_host_memory(logits.values[len(logits.sampling) :])
            parts.append(torch.from_numpy(scored.copy()))
            return logits

    engine._runner = Recorder()  # type: ignore[assignment]
    try:
        engine.add(request("scored", prompt, max_tokens=0, prompt_logprob_count=0))
        finish(engine)
    finally:
        engine._runner = runner
    return torch.cat(parts)


def relative_error(engine: TextEngine, oracle: Oracle, prompt: tuple[int, ...]) -> float:
    """The largest difference between logits, as a share of the largest logit."""
    expected = oracle.logits(prompt)
    found = prompt_logits(engine, prompt)
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())


def check_against_transformers(
    engine: TextEngine, oracle: Oracle, prompts: list[tuple[int, ...]], max_error: float = MAX_ERROR
) -> None:
    for prompt in prompts:
        assert relative_error(engine, oracle, prompt) <= max_error, len(prompt)
    out = run(engine, *(request(str(i), p, max_tokens=12, temperature=0.0) for i, p in enumerate(prompts)))
    for index, prompt in enumerate(prompts):
        assert out[str(index)] == oracle.continuation(prompt), len(prompt)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "each_kernel"), EVERY_WAY, indirect=["each_kernel"])
def test_architectures_equal_transformers(name: str, oracles: Oracles) -> None:
    oracle = oracles.family(name)
    engine = load(oracle.folder, max_model_length=MAX_LEN.get(name, 0))
    prompts = PROMPTS[1:] if name == "phi3_long" else PROMPTS
    check_against_transformers(engine, oracle, prompts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROPES)
def test_rotary_scalings_equal_transformers(name: str, oracles: Oracles) -> None:
    oracle = oracles.scaled(name)
    check_against_transformers(load(oracle.folder), oracle, PROMPTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD_APART)
def test_batch_chunks_cache_and_preemption_change_nothing(name: str, oracles: Oracles) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    folder = oracles.family(name).folder
    requests = [
        request(str(i), prompt, max_tokens=30, temperature=0.0, logprob_count=2)
        for i, prompt in enumerate((*PROMPTS, PROMPTS[2] + PROMPTS[0]))
    ]
    expected: dict[str, Any] = {}
    for each in requests:
        engine = load(folder, prefix_cache=False, max_step_token_count=512, max_model_length=512)
        engine.add(each)
        expected |= finish(engine)
    for settings in ({"max_step_token_count": 512}, {"max_step_token_count": 16}, {"block_count": 21}):
        engine = load(folder, max_model_length=512, **settings)
        for round_ in range(2):  # the second round hits the prefix cache
            random.Random(round_).shuffle(requests)
            streams = finish_all(engine, requests)
            for each in requests:
                found, wanted = streams[each.request_id], expected[each.request_id]
                assert tokens(found) == tokens(wanted), (settings, round_)
                assert [d.logprobs for d in found] == [d.logprobs for d in wanted], (settings, round_)
        if "block_count" in settings:
            # With a window in every layer, all of them fit this pool. `test_one_text` has a smaller one.
            assert engine.stats().preemption_count > 0 or engine.spec.window is not None
        else:
            assert engine.stats().prefix_hit_token_count > 0


def finish_all(engine: TextEngine, requests: list[EngineRequest]) -> dict[str, list[Delta]]:
    for each in requests:
        engine.add(each)
    return finish(engine)


@pytest.mark.parametrize("name", ["gemma2", "mixtral"])
def test_two_threads_keep_rows_independent(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name, intermediate_size=1000)
    sampling: dict[str, Any] = {"max_tokens": 2, "temperature": 0.0, "logprob_count": 0}
    requests = [request(str(i), prompt, **sampling) for i, prompt in enumerate(PROMPTS)]
    try:
        engine = load(tmp_path, thread_count=2, max_step_token_count=512, prefix_cache=False)
        alone = [finish_all(engine, [each])[each.request_id] for each in requests]
        together = finish_all(engine, requests)
    finally:
        torch.set_num_threads(1)
    for each, wanted in zip(requests, alone, strict=True):
        found = together[each.request_id]
        assert tokens(found) == tokens(wanted)
        assert [d.logprobs for d in found] == [d.logprobs for d in wanted]


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "mixtral"])
def test_bfloat16_is_within_its_rounding(name: str, tmp_path: Path) -> None:
    """No further from fp32 than twice what transformers in bfloat16 is. With experts only on the mean over all tokens:
    where two of them are nearly equal, rounding may choose the other one, and that token's logits are far off."""
    model = make_family(tmp_path, name, initializer_range=0.05, intermediate_size=96)
    found = prompt_logits(load(tmp_path, precision="bfloat16", kernels="torch"), PROMPTS[2])
    with torch.inference_mode():
        exact = model(torch.tensor([PROMPTS[2]])).logits[0, :-1]
        rounded = model.bfloat16()(torch.tensor([PROMPTS[2]])).logits[0, :-1].float()
    ours, theirs = (found - exact).abs(), (rounded - exact).abs()
    assert ours.mean() <= 2 * theirs.mean()
    assert name == "mixtral" or ours.max() <= 2 * theirs.max()
