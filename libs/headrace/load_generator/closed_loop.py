"""Closed-loop load: a fixed number of clients, each of which sends its next request when the last one has ended."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.load_generator.stream_client import StreamRecord, stream_completion

MAX_TOKEN_ID = 256
"""Number of token ids that prompts are drawn from: the first ones, which every vocabulary has."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests to send, their number, and how many run at once."""

    url: str
    """Base address of the REST bridge."""
    model: str
    request_count: int
    concurrency: int
    input_token_count: int
    output_token_count: int
    timeout: float = 300.0
    """Seconds that one request may take."""
    seed: int = 0
    key: str = ""
    """API key. Empty sends none."""

    def body(self, index: int) -> dict[str, object]:
        """Returns the body of a request. Prompts differ from their first token on, so no prefix is shared."""
        generator = random.Random(self.seed * 1_000_003 + index)  # noqa: S311 - a workload, not a secret
        return {
            "model": self.model,
            "prompt": [generator.randrange(3, MAX_TOKEN_ID) for _ in range(self.input_token_count)],
            "max_tokens": self.output_token_count,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Outcome of a workload."""

    workload: Workload
    records: list[StreamRecord]
    seconds: float


async def run_closed_loop(workload: Workload, on_progress: Callable[[int], None] = lambda _: None) -> LoadResult:
    """Runs the workload. `on_progress` receives the number of requests that have ended."""
    indices = iter(range(workload.request_count))
    records: list[StreamRecord] = []

    async def client() -> None:
        for index in indices:
            url = f"{workload.url}/v1/completions"
            records.append(await stream_completion(url, workload.body(index), workload.timeout, workload.key))
            on_progress(len(records))

    started = time.monotonic()
    await asyncio.gather(*(client() for _ in range(min(workload.concurrency, workload.request_count))))
    return LoadResult(workload, records, time.monotonic() - started)
