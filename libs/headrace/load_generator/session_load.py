"""Load of sessions, in a closed loop (a number of clients) or an open one (arrivals at a rate, whatever comes back)."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from headrace.load_generator.closed_loop import LoadResult, completion_body
from headrace.load_generator.profile import Session, Turn
from headrace.load_generator.stream_client import StreamRecord, stream_completion

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SessionLoad:
    """Sessions to run, and how many at once."""

    url: str
    """Base address of the REST bridge."""
    model: str
    sessions: list[Session]
    concurrency: int = 8
    """Sessions that run at once. Without effect beside a rate."""
    rate: float | None = None
    """Requests per second that arrive in an open loop. Sessions begin as a Poisson process; further turns of one follow
    when the answer before them has come. None: a closed loop."""
    profile: str = ""
    scale: float = 1.0
    """Factor of the profile's lengths."""
    timeout: float = 300.0
    """Seconds that one request may take."""
    seed: int = 0
    key: str = ""
    """API key. Empty sends none."""

    @property
    def turns(self) -> list[Turn]:
        return [turn for session in self.sessions for turn in session]

    def described(self) -> dict[str, Any]:
        """Returns the facts that two runs must share to be comparable."""
        loop: dict[str, Any] = {"concurrency": self.concurrency} if self.rate is None else {"rate": self.rate}
        return loop | {
            "profile": self.profile,
            "scale": round(self.scale, 3),
            "sessions": len(self.sessions),
            "input_tokens": round(fmean(len(turn.prompt) for turn in self.turns)),
            "output_tokens": round(fmean(turn.output_token_count for turn in self.turns)),
            "seed": self.seed,
        }


async def run_sessions(load: SessionLoad, on_progress: Progress = lambda _: None) -> LoadResult:
    """Runs every session to its end. `on_progress` receives the number of requests that have ended."""
    records: list[StreamRecord] = []

    async def run(session: Session) -> None:
        for turn in session:
            body = completion_body(load.model, turn.prompt, turn.output_token_count)
            record = await stream_completion(f"{load.url}/v1/completions", body, load.timeout, load.key)
            record.input_token_count = len(turn.prompt)
            records.append(record)
            on_progress(len(records))

    started = time.monotonic()
    await (_closed(load, run) if load.rate is None else _open(load, load.rate, run))
    return LoadResult(load, records, time.monotonic() - started)


async def _closed(load: SessionLoad, run: "Callable[[Session], Any]") -> None:
    waiting = iter(load.sessions)

    async def client() -> None:
        for session in waiting:
            await run(session)

    async with asyncio.TaskGroup() as clients:
        for _ in range(min(load.concurrency, len(load.sessions))):
            clients.create_task(client())


async def _open(load: SessionLoad, rate: float, run: "Callable[[Session], Any]") -> None:
    async with asyncio.TaskGroup() as running:
        due = time.monotonic()
        for session, gap in zip(load.sessions, arrival_gaps(load, rate), strict=True):
            due += gap
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            running.create_task(run(session))


def arrival_gaps(load: SessionLoad, rate: float) -> list[float]:
    """Returns the seconds before each session, exponentially distributed, so that requests arrive at the rate."""
    generator = random.Random(f"{load.seed}/arrivals")  # noqa: S311 - a workload, not a secret
    sessions_per_second = rate * len(load.sessions) / len(load.turns)
    return [generator.expovariate(sessions_per_second) for _ in load.sessions]
