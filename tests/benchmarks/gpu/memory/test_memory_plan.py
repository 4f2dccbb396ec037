"""Memory on a card: as `headrace plan` predicts it from the shape alone, and no step takes more than is left for it."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from tests.benchmarks.gpu.memory.live_bytes import LiveBytes
from tests.benchmarks.gpu.memory.memory_plan import AWQ, MemoryPlan, plan_memory
from tests.benchmarks.gpu.memory.model_shapes import read_shape

from headrace.engine.contract.engine_config import EngineConfig
from headrace.planning.deployment import RESERVE, Deployment
from headrace.planning.device_profile import PROFILES, read_profile
from headrace.planning.footprint import list_footprints

MIN_PREDICTED = 0.85
"""Minimum share of the tokens of keys and values that is predicted: what a step takes is not known then."""
CONFIG = EngineConfig(kernels="triton", precision="bfloat16", max_running_count=64, max_step_token_count=2048)


@cache
def plan_of(name: str) -> MemoryPlan:
    return plan_memory(read_shape(name), CONFIG, 8192)


@pytest.mark.parametrize(
    ("name", "card", "least_tokens"),
    [("llama-3.1-8b", "l4", 100_000), ("llama-3.1-8b", "a100-80g", 500_000), ("llama-3.3-70b", "a100-80g", 80_000)],
)
def test_a_model_takes_what_is_predicted(name: str, card: str, least_tokens: int) -> None:
    model, profile = read_shape(name), read_profile(PROFILES / f"{card}.toml")
    plan = plan_of(name)
    (footprint,) = list_footprints(replace(model, quantization=AWQ), "cuda")
    predicted = Deployment(footprint, profile)
    assert plan.weights == pytest.approx(footprint.weight_bytes, rel=0.01)
    assert plan.kv_per_token == footprint.kv_bytes_per_token
    assert plan.steps + plan.graphs < RESERVE * profile.memory_bytes
    assert MIN_PREDICTED <= predicted.kv_token_count / plan.kv_tokens(profile.memory_bytes) <= 1
    assert plan.kv_tokens(profile.memory_bytes) >= least_tokens


def test_longer_steps_take_more_and_weights_no_other() -> None:
    model = replace(read_shape("smollm2-135m"), layer_count=4)
    short, long = (
        plan_memory(model, CONFIG.model_copy(update={"max_step_token_count": count}), 8192) for count in (256, 2048)
    )
    assert short.weights == long.weights
    assert short.steps < long.steps


def test_memory_is_followed_until_its_last_view_is_gone() -> None:
    with LiveBytes() as live:
        whole = torch.empty(256)
        view = whole[:4]
        del whole
        assert live.now == 1024
        again = torch.empty(8)
        assert (live.now, live.most) == (1056, 1056)
        del view, again
        assert (live.now, live.most) == (0, 1056)
        live.reset_most()
        assert live.most == 0
