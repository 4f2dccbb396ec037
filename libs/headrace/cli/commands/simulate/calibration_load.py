"""Short load against a running platform, whose times a simulation has to find."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.commands.simulate.recorded_request import RecordedRequest, recorded
from headrace.errors import Unavailable
from headrace.load_generator.closed_loop import LoadResult
from headrace.load_generator.profile import Lengths, Profile, draw_sessions
from headrace.load_generator.session_load import SessionLoad, run_sessions

PROFILE = Profile("single questions that share nothing", (), Lengths(150, 0.8, 1500), Lengths(36, 0.6, 200))
SINGLE_COUNT = 16
"""Requests that are sent one after the other: they show the time that is spent outside the steps."""
CROWD_COUNT = 24
"""Requests per worker that are sent CROWD_SIZE at a time: they show how many the platform serves."""
CROWD_SIZE = 4
LOAD_SHARE = 0.6
"""Share of that rate at which the requests come that count."""


@dataclass(frozen=True, slots=True)
class CalibrationLoad:
    """Requests that a platform served."""

    singles: Sequence[RecordedRequest]
    """Requests that came one after the other."""
    requests: Sequence[RecordedRequest]
    """Requests that came at random."""
    rate: float
    """Requests per second of the latter."""


def load_platform(url: str, model: str, key: str, worker_count: int, request_count: int, seed: int) -> CalibrationLoad:
    """Sends requests to a platform, first one after the other, then as fast as they are served, then at random. Raises
    Unavailable if one fails. With a seed that was used before the platform has the prompts in its prefix cache."""

    def run(count: int, part: int, concurrency: int = 1, rate: float | None = None) -> LoadResult:
        sessions, _ = draw_sessions(PROFILE, count, seed + part)
        load = SessionLoad(url, model, sessions, concurrency, rate, seed=seed + part, key=key)
        result = asyncio.run(run_sessions(load))
        if failed := next((record.error for record in result.records if record.error), ""):
            raise Unavailable(f"a request of the load failed: {failed}")
        return result

    singles = run(SINGLE_COUNT, 0)
    crowd = run(CROWD_COUNT * worker_count, 1, concurrency=CROWD_SIZE * worker_count)
    rate = LOAD_SHARE * len(crowd.records) / crowd.seconds
    counted = run(request_count, 2, rate=rate)
    return CalibrationLoad(_of(singles), _of(counted), rate)


def _of(result: LoadResult) -> list[RecordedRequest]:
    return [recorded(record) for record in sorted(result.records, key=lambda record: record.start)]
