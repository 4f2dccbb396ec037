"""What Submit refuses, and what it never refuses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.errors import InvalidRequest, Overloaded
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.dispatcher import Dispatcher
from headrace.scheduler.servicer import SchedulerServicer
from headrace.scheduler.worker_table import WorkerTable
from headrace.service import Background
from headrace.v1.generation_pb2 import ModelInfo
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest
from headrace.v1.worker_pb2 import WorkerStatus

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
    background = Background()
    yield SchedulerServicer(
        table, lambda model: Dispatcher(model, SchedulerSettings(), table, nothing, nothing), 1, background
    )
    await background.close()


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


@pytest.mark.parametrize("field", ["prompt_token_ids", "output_token_ids"])
@pytest.mark.parametrize("bad", [-1, 100, 2**31 - 1])
async def test_token_ids_outside_of_the_vocabulary_are_refused(
    servicer: SchedulerServicer, field: str, bad: int
) -> None:
    model = ModelInfo(model="m", vocabulary_size=100)
    servicer._table.observe(WorkerStatus(worker_id="w", epoch=1, version=1, model_info=model))
    request = submission("r")
    getattr(request.generation, field).append(bad)
    context: Any = Context()
    with pytest.raises(InvalidRequest, match=f"token id {bad} is not in the vocabulary") as refused:
        await servicer.Submit(request, context)
    assert refused.value.param == field


async def test_negative_token_ids_are_refused_before_any_worker_is_known(servicer: SchedulerServicer) -> None:
    request = submission("r")
    request.generation.prompt_token_ids.append(-1)
    context: Any = Context()
    with pytest.raises(InvalidRequest, match="token id -1"):
        await servicer.Submit(request, context)
