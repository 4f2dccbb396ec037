"""Closed-loop load: a fixed number of clients, each of which sends its next request when the last one has ended."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.load_generator.profile import FIRST_TOKEN_ID, MAX_TOKEN_ID
from headrace.load_generator.stream_client import StreamRecord, stream_completion


class Load(Protocol):
    """Requests that were sent."""

    @property
    def model(self) -> str: ...

    def described(self) -> dict[str, Any]:
        """Returns the facts that two runs must share to be comparable."""


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

    def described(self) -> dict[str, Any]:
        """Returns the facts that two runs must share to be comparable."""
        return {
            "concurrency": self.concurrency,
            "input_tokens": self.input_token_count,
            "output_tokens": self.output_token_count,
        }

    def prompt(self, index: int) -> list[int]:
        """Returns the prompt of a request. Prompts differ from their first token on, so no prefix is shared."""
        generator = random.Random(self.seed * 1_000_003 + index)  # noqa: S311 - a workload, not a secret
        return [generator.randrange(FIRST_TOKEN_ID, MAX_TOKEN_ID) for _ in range(self.input_token_count)]

    def body(self, index: int) -> dict[str, object]:
        """Returns the body of a request."""
        return completion_body(self.model, self.prompt(index), self.output_token_count)


def completion_body(model: str, prompt: list[int], output_token_count: int) -> dict[str, object]:
    """Returns the body of a streaming completion of exactly so many tokens."""
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": output_token_count,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Outcome of a workload."""

    workload: Load
    records: list[StreamRecord]
    seconds: float


async def run_closed_loop(workload: Workload, on_progress: Callable[[int], None] = lambda _: None) -> LoadResult:
    """Runs the workload. `on_progress` receives the number of requests that have ended."""
    indices = iter(range(workload.request_count))
    records: list[StreamRecord] = []

    async def client() -> None:
        for index in indices:
            url = f"{workload.url}/v1/completions"
            record = await stream_completion(url, workload.body(index), workload.timeout, workload.key)
            record.input_token_count = workload.input_token_count
            records.append(record)
            on_progress(len(records))

    started = time.monotonic()
    await asyncio.gather(*(client() for _ in range(min(workload.concurrency, workload.request_count))))
    return LoadResult(workload, records, time.monotonic() - started)
