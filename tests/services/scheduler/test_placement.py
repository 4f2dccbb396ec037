"""Nobody gets more than was granted; affinity is bounded; exclusions hold while there is a choice."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rpc.deadline import Deadline
from headrace.scheduler.model_queue import Pending
from headrace.scheduler.placement import MAX_LOAD_LEAD, place
from headrace.scheduler.worker_table import WorkerEntry
from headrace.v1.scheduler_pb2 import Generation, SubmitRequest


def worker(name: str, credit: int, load: int = 0) -> WorkerEntry:
    return WorkerEntry(name, 1, 1, "", "m", 16, credit, load, False, 0.0)


def batch(count: int, excluded: list[str] | None = None, adapter: str = "") -> list[Pending]:
    loop = asyncio.new_event_loop()
    try:
        return [
            Pending(
                SubmitRequest(
                    generation=Generation(request_id=str(index), adapter=adapter), excluded_worker_ids=excluded or []
                ),
                Deadline.after(1),
                0.0,
                loop.create_future(),
            )
            for index in range(count)
        ]
    finally:
        loop.close()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=5), st.integers(0, 30))
def test_credit_is_never_exceeded_and_never_wasted(workers: list[tuple[int, int]], count: int) -> None:
    entries = [worker(f"w{index}", credit, load) for index, (credit, load) in enumerate(workers)]
    placed, left = place(batch(count), entries, {})
    for entry in entries:
        assert len(placed.get(entry.worker_id, [])) <= entry.free_count
    room = sum(entry.free_count for entry in entries)
    assert len(left) == max(0, count - room)


def test_load_is_levelled() -> None:
    placed, _ = place(batch(6), [worker("a", 10, 4), worker("b", 10, 0)], {})
    assert (len(placed["a"]), len(placed["b"])) == (1, 5)


def test_a_held_prefix_attracts_up_to_a_bound() -> None:
    prefixes = {str(index): {"a": 5} for index in range(40)}
    placed, _ = place(batch(40), [worker("a", 40), worker("b", 40)], prefixes)
    assert len(placed["a"]) > len(placed["b"])
    assert len(placed["a"]) - len(placed["b"]) <= MAX_LOAD_LEAD + 1


@pytest.mark.parametrize(("workers", "expected"), [(["a", "b"], "b"), (["a"], "a")])
def test_a_worker_that_failed_is_avoided_while_there_is_another(workers: list[str], expected: str) -> None:
    placed, _ = place(batch(1, excluded=["a"]), [worker(name, 1) for name in workers], {})
    assert list(placed) == [expected]


def test_an_adapter_goes_only_to_workers_that_have_it() -> None:
    entries = [worker("a", 10), replace(worker("b", 2, 5), adapters=frozenset({"tuned"}))]
    placed, left = place(batch(3, excluded=["b"], adapter="tuned"), entries, {})
    assert {name: len(members) for name, members in placed.items()} == {"b": 2}
    assert len(left) == 1
