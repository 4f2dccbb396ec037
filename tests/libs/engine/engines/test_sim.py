"""The engine without a model."""

import subprocess
import sys
import time

import pytest
from tests.libs.engine.engine_running import finish, request, run, tokens

from headrace.engine.contract.request import FinishReason
from headrace.engine.engines.sim import SimConfig, SimEngine, predicted_token


def test_tokens_depend_on_prompt_and_position_alone() -> None:
    crowded = SimEngine(SimConfig(block_count=24, max_step_token_count=32, max_model_length=256))
    requests = [request(str(i), range(i, i + 30), max_tokens=20) for i in range(12)]
    together = run(crowded, *requests)
    assert crowded.stats().preemption_count > 0
    for each in requests:
        alone = [predicted_token(each.prompt_token_ids, position, 32_000, 0) for position in range(20)]
        assert together[each.request_id] == alone


def test_output_ends_after_the_configured_count() -> None:
    engine = SimEngine(SimConfig(output_token_count=5))
    engine.add(request("r", (1, 2), max_tokens=50))
    stream = finish(engine)["r"]
    assert len(tokens(stream)) == 5
    assert tokens(stream)[-1] == 0
    assert stream[-1].finish_reason is FinishReason.STOP


PACE = SimConfig(base_seconds=0.01, prefill_seconds_per_token=0.001)


def test_step_time_follows_the_model() -> None:
    ends: list[float] = []
    engine = SimEngine(PACE, clock=lambda: 100.0, wait_until=ends.append)
    engine.add(request("r", range(20), max_tokens=1))
    engine.step()
    assert ends == [pytest.approx(100.03)]


def test_a_step_takes_its_time() -> None:
    engine = SimEngine(PACE)
    engine.add(request("r", range(20), max_tokens=1))
    started = time.monotonic()
    engine.step()
    assert time.monotonic() - started >= 0.03


def test_log_probabilities_are_there_where_asked_for() -> None:
    engine = SimEngine(SimConfig())
    engine.add(request("r", (1, 2, 3), max_tokens=2, logprob_count=0, prompt_logprob_count=0))
    first, second = finish(engine)["r"]
    assert first.prompt_logprobs is not None
    assert len(first.prompt_logprobs) == 3
    assert len(first.logprobs) == len(second.logprobs) == 1
    assert second.prompt_logprobs is None


@pytest.mark.process
def test_it_does_not_import_torch() -> None:
    code = "import sys, headrace.engine.engines.sim; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
