"""Defaults of a model's settings suit its device, and give way to what is set."""

from typing import Any

import pytest

from headrace.engine.contract.engine_config import EngineConfig
from headrace.settings.settings import load
from headrace.worker.config import WorkerSettings


@pytest.mark.parametrize(
    ("given", "tokens", "seconds"),
    [
        ({}, 512, 0.2),
        ({"device": "cpu"}, 512, 0.2),
        ({"device": "cuda"}, 2048, 0.05),
        ({"device": "cuda:1", "max_step_token_count": 256}, 256, 0.05),
        ({"device": "cuda:1", "max_step_seconds": 0.0}, 2048, 0.0),
    ],
)
def test_the_parts_in_which_prompts_are_read(given: dict[str, Any], tokens: int, seconds: float) -> None:
    config = EngineConfig(**given)
    assert (config.max_step_token_count, config.max_step_seconds) == (tokens, seconds)


def test_the_device_may_come_from_the_environment() -> None:
    environ = {"HEADRACE_WORKER_DEVICE": "cuda:0"}
    assert load(WorkerSettings, "worker", [], environ).max_step_token_count == 2048
    set_too = environ | {"HEADRACE_WORKER_MAX_STEP_TOKEN_COUNT": "128"}
    assert load(WorkerSettings, "worker", [], set_too).max_step_token_count == 128
