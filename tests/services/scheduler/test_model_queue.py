"""Class before fairness before deadline; budgets hold; those who left are gone."""

import asyncio
import time

import pytest

from headrace.rpc.deadline import Deadline
from headrace.scheduler.model_queue import ModelQueue, Pending
from headrace.v1.generation_pb2 import (
    PRIORITY_CLASS_BATCH,
    PRIORITY_CLASS_INTERACTIVE,
    PRIORITY_CLASS_REALTIME,
    PriorityClass,
    SamplingParams,
)
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest

pytestmark = pytest.mark.anyio


def pending(
    name: str,
    tenant: str = "a",
    rank: "PriorityClass.ValueType" = PRIORITY_CLASS_INTERACTIVE,
    seconds: float = 60,
    tokens: int = 10,
    output: int = 10,
) -> Pending:
    generation = Generation(
        request_id=name, prompt_token_ids=[1] * tokens, sampling_params=SamplingParams(max_token_count=output)
    )
    return Pending(
        SubmitRequest(generation=generation, tenant=tenant, priority_class=rank),
        Deadline.after(seconds),
        time.monotonic(),
        asyncio.get_running_loop().create_future(),
    )


def names(batch: list[Pending]) -> list[str]:
    return [entry.request.generation.request_id for entry in batch]


async def test_classes_go_first() -> None:
    queue = ModelQueue()
    for name, rank in (("b", PRIORITY_CLASS_BATCH), ("i", PRIORITY_CLASS_INTERACTIVE), ("r", PRIORITY_CLASS_REALTIME)):
        queue.add(pending(name, rank=rank))
    assert names(queue.take(10, 1000)) == ["r", "i", "b"]


async def test_within_a_tenant_the_earliest_deadline_goes_first() -> None:
    queue = ModelQueue()
    for name, seconds in (("late", 60.0), ("soon", 5.0), ("middle", 30.0)):
        queue.add(pending(name, seconds=seconds))
    assert names(queue.take(10, 1000)) == ["soon", "middle", "late"]


async def test_tenants_share_by_tokens() -> None:
    queue = ModelQueue()
    for index in range(6):
        queue.add(pending(f"greedy-{index}", tenant="greedy", tokens=90))
    for index in range(6):
        queue.add(pending(f"modest-{index}", tenant="modest", tokens=10))
    taken = names(queue.take(6, 10_000))
    assert sum(name.startswith("modest") for name in taken) >= 4


async def test_a_tenant_that_was_away_has_no_claim_to_the_past() -> None:
    queue = ModelQueue()
    for index in range(20):
        queue.add(pending(f"a-{index}", tenant="a"))
    queue.take(10, 10_000)
    for index in range(20):
        queue.add(pending(f"b-{index}", tenant="b"))
    taken = names(queue.take(10, 10_000))
    assert 4 <= sum(name.startswith("a") for name in taken) <= 6


async def test_budgets() -> None:
    queue = ModelQueue()
    for index in range(5):
        queue.add(pending(str(index), tokens=40))
    assert len(queue.take(2, 1000)) == 2
    assert len(queue.take(5, 100)) == 2
    assert len(queue) == 1


async def test_a_prompt_larger_than_the_budget_goes_alone() -> None:
    queue = ModelQueue()
    queue.add(pending("large", tokens=500, seconds=1))
    queue.add(pending("small", seconds=50))
    assert names(queue.take(5, 100)) == ["large"]
    assert names(queue.take(5, 100)) == ["small"]


async def test_a_cancelled_request_leaves_the_queue() -> None:
    queue = ModelQueue()
    leaver, stayer = pending("leaver", seconds=1), pending("stayer")
    queue.add(leaver)
    queue.add(stayer)
    leaver.placement.cancel()
    await asyncio.sleep(0)
    assert len(queue) == 1
    assert names(queue.take(5, 100)) == ["stayer"]
    assert len(queue) == 0
    assert not queue.arrived.is_set()


async def test_sequences_that_lost_their_worker_go_first_whatever_their_class() -> None:
    queue = ModelQueue()
    queue.add(pending("r", rank=PRIORITY_CLASS_REALTIME, seconds=1))
    moved = pending("moved", rank=PRIORITY_CLASS_BATCH)
    moved.request.excluded_worker_ids.append("w0")
    queue.add(moved)
    begun = pending("begun", seconds=30)
    begun.request.generation.output_token_ids.append(7)
    queue.add(begun)
    assert names(queue.take(10, 1000)) == ["begun", "moved", "r"]


async def test_a_tenant_is_charged_once_for_a_request_that_waits_again() -> None:
    queue = ModelQueue()
    again = pending("a1", tenant="a", tokens=100)
    for entry in (again, pending("b1", tenant="b", tokens=150)):
        queue.add(entry)
    for tenant in "ab":
        queue.add(pending(f"{tenant}2", tenant=tenant, seconds=600))
    assert names(queue.take(2, 1000)) == ["a1", "b1"]
    queue.add(again)
    assert names(queue.take(2, 1000)) == ["a1", "a2"]


async def test_a_sequence_that_lost_its_worker_is_not_charged_again() -> None:
    queue = ModelQueue()
    moved = pending("a1", tenant="a", tokens=100)
    moved.request.excluded_worker_ids.append("w0")
    for entry in (moved, pending("b1", tenant="b", tokens=50)):
        queue.add(entry)
    for tenant in "ab":
        queue.add(pending(f"{tenant}2", tenant=tenant, seconds=600))
    assert names(queue.take(3, 1000)) == ["a1", "b1", "a2"]
