"""A place for every request: from the scheduler that leads, from another one, or by the gateway's own choice."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from google.rpc.status_pb2 import Status

from headrace.domain.deadline import Deadline
from headrace.errors import Overloaded, Unavailable
from headrace.errors.status import to_status
from headrace.errors.tree import SchedulerGone
from headrace.gateway.delivery.placement import self_placement as self_placement_module
from headrace.gateway.delivery.placement.schedulers import ABSENCE_SECONDS, Schedulers
from headrace.gateway.delivery.placement.self_placement import SelfPlacement
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.service_clients.scheduler import LEADER_DETAIL
from headrace.v1.scheduler_pb2 import Generation, ModelQueue, Place, Settlement, Submission
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse

pytestmark = pytest.mark.anyio


class PlayedStream:
    """A scheduler that places on a worker of its own name, or does not answer."""

    def __init__(self, name: str, *, alive: bool = True, fence: int = 0) -> None:
        self.scheduler_id = name
        self.alive = alive
        self.answered_at = float("-inf")
        self.queues = {"m": ModelQueue(model="m", fence=fence)}
        self.settled: list[Settlement] = []
        self.never = False
        self.leader = ""
        """Scheduler in whose favor it refuses everything. Empty: none."""

    async def submit(self, submission: Submission, remaining_seconds: float) -> Place:
        assert remaining_seconds > 0
        if self.leader:
            raise Unavailable(stage="schedule", details={LEADER_DETAIL: self.leader})
        if self.never:
            await asyncio.Event().wait()
        return Place(worker_id=self.scheduler_id)

    def settle(self, settlement: Settlement) -> None:
        self.settled.append(settlement)


class PlayedWorkers:
    """Workers with so much room each, some of which do not answer."""

    def __init__(self, silent: Sequence[str] = (), **room: int) -> None:
        self._room = room
        self._silent = silent
        self.asked: list[str] = []

    def reachable(self, generation: Generation) -> Sequence[WorkerFacts]:
        return [WorkerFacts(name, ModelFacts("m"), epoch=3) for name in self._room]

    async def dispatch(self, worker_id: str, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        self.asked.append(worker_id)
        if worker_id in self._silent:
            raise Unavailable("no answer")
        self._room[worker_id] -= 1
        outcome = Status() if self._room[worker_id] >= 0 else to_status(Overloaded(stage="dispatch"))
        return DispatchResponse(outcomes=[outcome])


def submission(*excluded: str) -> Submission:
    generation = Generation(request_id="r", attempt=1, model="m", prompt_token_ids=[1])
    return Submission(generation=generation, excluded_worker_ids=excluded)


def make(*streams: PlayedStream, workers: PlayedWorkers | None = None) -> Schedulers:
    played: Any = streams
    return Schedulers(played, SelfPlacement(workers or PlayedWorkers()))


async def test_who_says_that_it_leads_is_asked() -> None:
    for leader in ("s0", "s1"):
        streams = [PlayedStream(name, fence=2 if name == leader else 1) for name in ("s0", "s1")]
        assert (await make(*streams).place(submission(), Deadline.after(5))).worker_id == leader


async def test_while_nobody_leads_all_gateways_ask_the_same_one() -> None:
    names = ["s0", "s1", "s2"]
    chosen = set()
    for order in (names, names[::-1]):
        place = await make(*(PlayedStream(name) for name in order)).place(submission(), Deadline.after(5))
        chosen.add(place.worker_id)
    assert len(chosen) == 1


async def test_who_does_not_answer_is_passed_over() -> None:
    streams = [PlayedStream("s0", alive=False, fence=9), PlayedStream("s1")]
    schedulers = make(*streams)
    assert (await schedulers.place(submission(), Deadline.after(5))).worker_id == "s1"
    schedulers.settle(Settlement(request_id="r", model="m", output_token_count=4))
    assert [len(stream.settled) for stream in streams] == [0, 1]


async def test_without_any_scheduler_the_gateway_places_by_itself_after_a_second() -> None:
    schedulers = make(PlayedStream("s0", alive=False), workers=PlayedWorkers(w0=1))
    started = asyncio.get_running_loop().time()
    place = await schedulers.place(submission(), Deadline.after(10))
    assert (place.worker_id, place.worker_epoch) == ("w0", 3)
    assert asyncio.get_running_loop().time() - started >= ABSENCE_SECONDS * 0.9


async def test_a_scheduler_that_comes_back_is_asked_instead() -> None:
    stream = PlayedStream("s0", alive=False)
    placing = asyncio.create_task(make(stream, workers=PlayedWorkers(w0=0)).place(submission(), Deadline.after(10)))
    await asyncio.sleep(0.05)
    stream.alive = True
    assert (await asyncio.wait_for(placing, 5)).worker_id == "s0"


async def place_patiently(schedulers: Schedulers, seconds: float) -> str:
    """Asks again after each refusal, as a stream of tokens does, and returns the worker; empty after `seconds`."""
    deadline = Deadline.after(seconds)
    while not deadline.expired:
        with contextlib.suppress(Unavailable):
            return (await schedulers.place(submission(), Deadline.after(5))).worker_id
        await asyncio.sleep(0.02)
    return ""


async def test_a_leader_out_of_reach_counts_as_none() -> None:
    """The network may let the schedulers see each other, and this gateway only the one that does not lead."""
    reached = PlayedStream("s1")
    reached.leader = "s0"
    schedulers = make(PlayedStream("s0", alive=False, fence=9), reached, workers=PlayedWorkers(w0=2))
    started = asyncio.get_running_loop().time()
    assert await place_patiently(schedulers, 5) == "w0"
    assert asyncio.get_running_loop().time() - started >= ABSENCE_SECONDS * 0.9
    assert (await schedulers.place(submission(), Deadline.after(5))).worker_id == "w0", "the next one waits no second"
    reached.leader = ""
    assert (await schedulers.place(submission(), Deadline.after(5))).worker_id == "s1", "it leads now"
    reached.leader = "s0"
    with pytest.raises(Unavailable):
        await schedulers.place(submission(), Deadline.after(5))


async def test_a_leader_that_is_about_to_say_so_is_waited_for() -> None:
    """It is in reach: that it leads is in its next heartbeat."""
    refusing = PlayedStream("s1", fence=1)
    refusing.leader = "s0"
    assert not await place_patiently(make(PlayedStream("s0"), refusing, workers=PlayedWorkers(w0=1)), 1.5)


async def test_a_worker_without_room_is_passed_over() -> None:
    place = await SelfPlacement(PlayedWorkers(w0=0, w1=1)).place(submission(), Deadline.after(5))
    assert place.worker_id == "w1"


async def test_a_worker_that_lost_the_request_is_the_last_choice() -> None:
    for _ in range(10):
        place = await SelfPlacement(PlayedWorkers(w0=1, w1=1)).place(submission("w0"), Deadline.after(5))
        assert place.worker_id == "w1"
    place = await SelfPlacement(PlayedWorkers(w0=1)).place(submission("w0"), Deadline.after(5))
    assert place.worker_id == "w0"


async def test_a_worker_that_does_not_answer_needs_another_attempt() -> None:
    """A worker may have taken the request: to ask the next one under the same attempt would run it twice."""
    workers = PlayedWorkers(silent=["w0"], w0=1)
    with pytest.raises(Unavailable) as failure:
        await SelfPlacement(workers).place(submission(), Deadline.after(5))
    assert failure.value.details == {"worker": "w0"}
    assert workers.asked == ["w0"]


async def test_a_newcomer_does_not_wait_for_room_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_placement_module, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(Overloaded):
        await SelfPlacement(PlayedWorkers(w0=0)).place(submission(), Deadline.after(30))


def test_a_lost_scheduler_is_a_reason_to_try_again() -> None:
    assert isinstance(SchedulerGone(stage="schedule"), Unavailable)
