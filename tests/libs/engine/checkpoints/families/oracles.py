"""Models in transformers, and how far an engine is from what they compute."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tests.libs.engine.engine_running import DEFAULTS, engine_config, finish, request, run
from tests.libs.engine.greedy_oracle import likeliest_tokens
from tests.libs.engine.tiny_models import ROPES, make_family, save_random
from transformers import PreTrainedModel

from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.contract.request import Delta, EngineRequest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.step_logits import StepLogits

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"nemotron_h_latent": ("nemotron_h_moe", {"moe_latent_size": 24})}
"""Families of tiny models that have other settings here, by names of their own."""
MAX_ERROR = 1e-4
"""Largest difference of logits that rounding explains, as a share of the largest logit."""


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 256, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


class Oracle:
    """A model in transformers. What it computes is kept for all kernels that are compared with it."""

    def __init__(self, folder: Path, model: PreTrainedModel) -> None:
        self.folder = folder
        self.model = model
        self.logits = cache(self._logits)
        self.likeliest = cache(self._likeliest)

    @torch.inference_mode()
    def _logits(self, prompt: tuple[int, ...]) -> torch.Tensor:
        return self.model(torch.tensor([prompt])).logits[0, :-1].float()

    def _likeliest(self, prompt: tuple[int, ...], found: tuple[int, ...]) -> list[int]:
        return likeliest_tokens(self.model, prompt, found)


class Oracles:
    """One model of each family, of each variant and of each rotary scaling."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.family = cache(self._family)
        self.scaled = cache(self._scaled)

    def _family(self, name: str) -> Oracle:
        folder = self._root / name
        family, settings = VARIANTS.get(name, (name, {}))
        return Oracle(folder, make_family(folder, family, **settings))

    def _scaled(self, name: str) -> Oracle:
        folder, rope = self._root / f"scaled {name}", {"rope_theta": 10000.0, **ROPES[name]}
        usual = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4}
        return Oracle(folder, save_random(folder, usual | {"rope_parameters": rope}))


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
        found = out[str(index)]
        assert len(found) == 12
        assert found == oracle.likeliest(prompt, tuple(found)), len(prompt)


def finish_all(engine: TextEngine, requests: list[EngineRequest]) -> dict[str, list[Delta]]:
    for each in requests:
        engine.add(each)
    return finish(engine)
