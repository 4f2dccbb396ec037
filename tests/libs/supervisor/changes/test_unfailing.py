"""Work that fails is reported, and restarted."""

import asyncio

import pytest

from headrace.supervisor.changes import unfailing
from headrace.supervisor.changes.unfailing import keep_doing

pytestmark = pytest.mark.anyio


async def test_work_that_fails_begins_again_and_every_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfailing, "PAUSE_SECONDS", 0.0)
    told, failures = list[str](), [KeyError("m"), OSError("disk")]

    async def work() -> None:
        if failures:
            raise failures.pop(0)

    async with asyncio.timeout(10):
        await keep_doing(work, "following", told.append)
    assert told == [
        "following failed, and is restarted: KeyError('m')",
        "following failed, and is restarted: OSError('disk')",
    ]


async def test_it_ends_when_it_is_cancelled() -> None:
    task = asyncio.create_task(keep_doing(asyncio.Event().wait, "waiting", lambda _: None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
