"""Requests for which a queue has no room go to the smaller model that the operator names, and say so."""

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from headrace import demo_model
from headrace.testing.running_platform import RunningPlatform, running_platform

pytestmark = pytest.mark.slow
CONFIG = """
[scheduler]
max_waiting_count = 1
[worker]
max_running_count = 2
sim_base_seconds = 0.02
[gateway]
overflow = {big = "small"}
"""
AT_ONCE = 6


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("overflow")
    (folder / "platform.toml").write_text(CONFIG)
    models = [f"{name}={demo_model.CHECKPOINT}" for name in ("big", "small")]
    arguments = [*models, "--engine", "sim", "--config", str(folder / "platform.toml")]
    with running_platform(folder / "state", arguments) as platform:
        yield platform


async def ask(platform: RunningPlatform, model: str, stream: bool) -> tuple[int, str | None, set[str]]:
    """The status, what overflowed, and the models that the answer names."""
    body = {"model": model, "prompt": [5, 6, 7], "max_tokens": 40, "ignore_eos": True, "stream": stream}
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.post(f"{platform.http}/v1/completions", json=body)
    named = {part.split('"')[1] for part in answer.text.replace(" ", "").split('"model":')[1:]}
    return answer.status_code, answer.headers.get("x-headrace-overflow"), named


@pytest.mark.parametrize("stream", [False, True])
def test_what_overflows_is_answered_by_the_smaller_model(crowded: RunningPlatform, stream: bool) -> None:
    async def all_at_once(model: str) -> list[tuple[int, str | None, set[str]]]:
        return await asyncio.gather(*(ask(crowded, model, stream) for _ in range(AT_ONCE)))

    answers = asyncio.run(all_at_once("big"))
    overflowed = [answer for answer in answers if answer[1] is not None]
    assert overflowed, answers
    for status, origin, models in answers:
        assert status in (200, 503)
        if status == 200:
            assert models == ({"big"} if origin is None else {"small"})
    assert any(status == 200 for status, _, _ in overflowed)
    # Nothing is named for the smaller one: it sends away what it has no room for.
    answers = asyncio.run(all_at_once("small"))
    assert {origin for _, origin, _ in answers} == {None}
    assert any(status == 503 for status, _, _ in answers)
