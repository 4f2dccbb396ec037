"""Claims that any machine can measure. Speeds are ratios, from runs that take turns."""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headrace.claims.claim import Claim
from headrace.claims.engine_load import EngineLoad
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.evaluation.text import evaluation_text
from headrace.evaluation.token_windows import cut_windows

ROUNDS = 3
OUTPUTS = 64
PROMPT = 64
BATCH = 32
SHARED, OWN = 448, 64
"""Tokens that all prompts share, and tokens unique to each."""
PASSAGE = 48
"""Tokens of a text that is continued, and comes again."""


def measure_claims(source: Path, draft: Path | None = None) -> Iterator[Claim]:
    """Measures one claim after the other with a model. `draft`: a draft model for it. Raises what `load_text_engine`
    raises."""
    yield _quantization(source)
    yield _prefix_caching(source)
    yield _speculation(source, draft)
    yield _fused_attention(source)
    yield _batching(source)


def _config(**changed: Any) -> EngineConfig:
    plain: dict[str, Any] = {"speculation": "off", "max_running_count": BATCH, "block_count": 2048}
    return EngineConfig(**(plain | changed))


def _ratio(source: Path, fast: EngineConfig, slow: EngineConfig, prompts: int, length: int = PROMPT) -> float:
    """Returns the median ratio of decode rates of two settings, with `prompts` requests at once."""
    with ExitStack() as stack:
        loads = [stack.enter_context(EngineLoad(source, config)) for config in (fast, slow)]
        for load in loads:
            load.answer(load.prompts(1, length, -1), 4)
        ratios = []
        for number in range(ROUNDS):
            one, other = (load.answer(load.prompts(prompts, length, number), OUTPUTS) for load in loads)
            ratios.append(one.tokens_per_second / other.tokens_per_second)
    return statistics.median(ratios)


def _quantization(source: Path) -> Claim:
    subject, promised = "quantization", "2-4 times the tokens per second of one request"
    if read_model_config(source).quantization is not None:
        return Claim(subject, promised, "", None, "not measured", "the model is quantized already: name a plain one")
    ratio = _ratio(source, _config(precision="int4"), _config(precision="float32"), 1)
    condition = "int4 against float32, one request; it grows with the model until memory bandwidth is the limit"
    return Claim(subject, promised, f"{ratio:.2f} times", ratio >= 2, "measured here", condition)


def _prefix_caching(source: Path) -> Claim:
    with EngineLoad(source, _config(max_model_length=0)) as load:
        limit = load.engine.spec.max_model_length
        shared_size = min(SHARED, (limit - OUTPUTS) * SHARED // (SHARED + OWN))
        own_size = shared_size * OWN // SHARED
        (shared,) = load.prompts(1, shared_size, 0)
        load.answer([shared], 1)
        prompts = [(*shared, *own) for own in load.prompts(8, own_size, 1)]
        share = load.answer(prompts, 4).cached_share
    condition = f"prompts of {shared_size + own_size} tokens that begin with the same {shared_size}"
    return Claim("prefix caching", "75-90 % of prefill work", f"{share:.0%}", share >= 0.75, "measured here", condition)


def _speculation(source: Path, draft: Path | None) -> Claim:
    drafted = _config(speculation="on", draft_folder=draft)
    passages = cut_windows(evaluation_text(), source, PASSAGE, ROUNDS)
    with EngineLoad(source, drafted) as fast, EngineLoad(source, _config()) as slow:
        ratios = []
        for passage in passages:
            prompt = tuple(passage)
            again = (*prompt, *slow.continuation(prompt, OUTPUTS), *prompt)
            one, other = (load.answer([again], OUTPUTS) for load in (fast, slow))
            ratios.append(one.tokens_per_second / other.tokens_per_second)
    ratio = statistics.median(ratios)
    means = "a draft model" if draft is not None else "no draft model"
    condition = f"one request whose text came before, {means}; the tokens are the same"
    return Claim("speculation", "2-3 times", f"{ratio:.2f} times", ratio >= 2, "measured here", condition)


def _fused_attention(source: Path) -> Claim:
    subject, promised = "fused attention", "20-30 % more tokens per second"
    if find_spec("torch") is None:
        return Claim(subject, promised, "", None, "not measured", "torch, to compare with, is not installed")
    gain = _ratio(source, _config(exact=True), _config(kernels="torch", exact=True), 8, 2 * PROMPT) - 1
    condition = "a step fused in one call against one operation after the other, 8 requests, the same arithmetic"
    return Claim(subject, promised, f"{gain:.0%} more", gain >= 0.2, "measured here", condition)


def _batching(source: Path) -> Claim:
    with EngineLoad(source, _config()) as load:
        load.answer(load.prompts(1, PROMPT, -1), 4)
        ratios = []
        for number in range(ROUNDS):
            many, one = (load.answer(load.prompts(size, PROMPT, number), OUTPUTS) for size in (BATCH, 1))
            ratios.append(many.tokens_per_second / one.tokens_per_second)
    ratio = statistics.median(ratios)
    condition = f"{BATCH} requests at once against one"
    return Claim("batching", "at least 10 times", f"{ratio:.1f} times", ratio >= 10, "measured here", condition)
