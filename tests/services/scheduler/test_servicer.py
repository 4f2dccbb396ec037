"""What Submit refuses, and what it never refuses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.errors import Overloaded
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.dispatcher import Dispatcher
from headrace.scheduler.servicer import SchedulerServicer
from headrace.scheduler.worker_table import WorkerTable
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest

pytestmark = pytest.mark.anyio


class Context:
    """A call with some time left."""

    def time_remaining(self) -> float:
        return 5.0


@pytest.fixture
async def servicer() -> AsyncIterator[SchedulerServicer]:
    """One without workers, whose queues are full at the first request."""
    table = WorkerTable(3.0)
    nothing: Any = None
    made = SchedulerServicer(
        table, lambda model: Dispatcher(model, SchedulerSettings(), table, nothing, nothing), max_waiting_count=1
    )
    yield made
    await made.close()


def submission(name: str, attempt: int = 1, **fields: Any) -> SubmitRequest:
    generation = Generation(request_id=name, attempt=attempt, model="m", prompt_token_ids=[1, 2])
    return SubmitRequest(generation=generation, **fields)


async def test_a_full_queue_refuses_newcomers_only(servicer: SchedulerServicer) -> None:
    context: Any = Context()
    waiting = [asyncio.create_task(servicer.Submit(submission("first"), context))]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await servicer.Submit(submission("second"), context)
    moved = submission("moved", attempt=2, excluded_worker_ids=["w0"])
    waiting.append(asyncio.create_task(servicer.Submit(moved, context)))
    await asyncio.sleep(0)
    assert servicer.queues()[0].waiting_count == 2
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
