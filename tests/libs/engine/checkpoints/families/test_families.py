"""Every architecture and every kind of rotary scaling against transformers, and against itself in other batches."""

import random
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
from tests.libs.engine.engine_running import request, tokens
from tests.libs.engine.tiny_models import FAMILIES, ROPES, make_family, make_prompts

pytestmark = pytest.mark.usefixtures("each_kernel")

PROMPTS = make_prompts((3, 40, 150, 300))
"""Shorter and longer than the window of 24, a chunk of 64 and a tile of 128 keys."""
MAX_LEN = {"phi3_short": 384, "phi3_long": 512}
TOLD_APART = ("qwen3", "mistral", "mistral_wide", "gemma2", "gemma3", "phi3_long", "mixtral_windows", "qwen3_moe")
"""Together, all code that the others share."""
EVERY_WAY = [
    *((name, kernels) for name in FAMILIES for kernels in ("auto", "torch", "device")),
    *((name, "rows") for name in TOLD_APART),
]
"""Families and ways to compute them. Row by row, a family takes as long as in all other ways."""


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
    engine = load(folder, prefix_cache=False, max_step_token_count=512, max_model_length=512)
    for each in requests:
        expected |= finish_all(engine, [each])
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


@pytest.mark.parametrize("each_kernel", ["torch"], indirect=True)
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
