"""Prompts are looked up where that can change what becomes of them, whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.errors import Unavailable
from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.prompt import Prompt
from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.prefixes import (
    FEW_BLOCKS,
    LONG_PROMPT,
    LOOKUP_SHARE,
    MAX_BLOCKS,
    MAX_LOOKUP_SECONDS,
    MIN_LOOKUP_SECONDS,
    Prefixes,
)

pytestmark = pytest.mark.anyio
SIZE = 16


class Cache:
    """Says that one worker holds all that is asked for, or nothing at all."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.seconds = 0.0
        self._is_away = is_away

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        assert len(set(block_hashes)) == len(block_hashes)
        self.seconds = timeout
        if self._is_away:
            raise Unavailable("the cache is away")
        return {"w0": HeldPrefix(len(block_hashes))}


def desk_of(worker_count: int, block_size: int = SIZE, prefill_rate: float = 0.0) -> ModelDesk:
    core = SchedulingCore(Policy())
    for number in range(worker_count):
        report = WorkerReport(f"w{number}", 1, 1, "m", 4, address="a", vocabulary_size=100, block_size=block_size)
        report = replace(report, prefill_rate=prefill_rate)
        list(core.handle(events.WorkerReported(report, answers=True), 0.0))
    return core.desk("m")


def prefixes(cache: Any) -> Prefixes:
    return Prefixes(cache)


@pytest.mark.parametrize(
    ("worker_count", "block_size", "token_count", "matters"),
    [
        (2, SIZE, SIZE, True),
        (2, SIZE, SIZE - 1, False),
        (1, SIZE, LONG_PROMPT - 1, False),
        (1, SIZE, LONG_PROMPT, True),
        (2, 0, LONG_PROMPT, False),
        (0, SIZE, LONG_PROMPT, False),
    ],
)
async def test_a_lookup_matters(worker_count: int, block_size: int, token_count: int, matters: bool) -> None:
    """Also to the only worker: a prompt that it holds is not refused as too long to compute."""
    assert prefixes(Cache()).matter(token_count, desk_of(worker_count, block_size)) == matters


@pytest.mark.parametrize("block_count", [1, FEW_BLOCKS, FEW_BLOCKS + 1, 4000, MAX_BLOCKS + 5])
async def test_long_prompts_are_looked_up_whole(block_count: int) -> None:
    cache = Cache()
    found = await prefixes(cache).held(Prompt("m", tuple(range(block_count * SIZE + 3)), "", ""), desk_of(1))
    assert found == {"w0": HeldPrefix(min(block_count, MAX_BLOCKS))}


@pytest.mark.parametrize(
    ("token_count", "seconds"),
    [(100, MIN_LOOKUP_SECONDS), (1000, LOOKUP_SHARE * 0.5), (100_000, MAX_LOOKUP_SECONDS)],
)
async def test_a_lookup_takes_little_of_the_time_to_compute_a_prompt(token_count: int, seconds: float) -> None:
    """A cache that hangs delays a first token by a tenth; one that is slow still finds the blocks."""
    cache = Cache()
    await prefixes(cache).held(Prompt("m", tuple(range(token_count)), "", ""), desk_of(2, prefill_rate=2000.0))
    assert cache.seconds == pytest.approx(seconds)


async def test_a_cache_that_is_away_is_no_preference() -> None:
    assert await prefixes(Cache(is_away=True)).held(Prompt("m", tuple(range(SIZE)), "", ""), desk_of(2)) == {}
