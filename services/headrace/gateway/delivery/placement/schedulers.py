"""Path from this gateway to a place for a request: a scheduler that answers, or the gateway's own choice."""

import asyncio
import hashlib
import time
from collections.abc import Sequence

from headrace.domain.deadline import Deadline
from headrace.errors import Unavailable
from headrace.gateway.delivery.placement.self_placement import SelfPlacement
from headrace.service_clients.scheduler import LEADER_DETAIL, SchedulerStream
from headrace.v1.scheduler_pb2 import Place, Settlement, Submission

ABSENCE_SECONDS = 1.0
"""Seconds without a scheduler that could place a request after which the gateway places it itself."""
LOOK_SECONDS = 0.02


class Schedulers:
    """Chooses among several schedulers. While none leads a model, all gateways that see the same schedulers alive ask
    the same one, which then takes the lead (rendezvous hashing: Thaler and Ravishankar, 1996)."""

    def __init__(self, streams: Sequence[SchedulerStream], alone: SelfPlacement) -> None:
        self._streams = streams
        self._alone = alone
        self._started = time.monotonic()
        self._unled: dict[str, tuple[float, float]] = {}
        """Times of the first and the last refusal in favor of a leader out of reach, by model, in monotonic seconds."""

    async def place(self, submission: Submission, deadline: Deadline) -> Place:
        """Waits until a worker has accepted a request, and returns its place. The caller bounds the wait.

        Raises SchedulerGone when the scheduler is lost meanwhile (the next try must be a new attempt, because the first
        may have been placed), and any error with which the scheduler refuses: QueueTimeout when the deadline passes.
        """
        model = submission.generation.model
        while (stream := self._leader(model)) is None:
            if self._absent_seconds() > ABSENCE_SECONDS:
                return await self._alone.place(submission, deadline)
            await asyncio.sleep(LOOK_SECONDS)
        try:
            place = await stream.submit(submission, deadline.remaining)
        except Unavailable as error:
            if not self._is_out_of_reach(error.details.get(LEADER_DETAIL)):
                raise
            if self._unled_seconds(model) <= ABSENCE_SECONDS:
                raise
            return await self._alone.place(submission, deadline)
        self._unled.pop(model, None)
        return place

    def settle(self, settlement: Settlement) -> None:
        """Tells the model's scheduler what a request has used."""
        if (stream := self._leader(settlement.model)) is not None:
            stream.settle(settlement)

    def _leader(self, model: str) -> SchedulerStream | None:
        """Returns the scheduler that says it leads the model, else the one that all gateways would choose."""
        alive = [stream for stream in self._streams if stream.alive]
        return max(alive, key=lambda stream: (_fence(stream, model), _weight(stream.scheduler_id, model)), default=None)

    def _is_out_of_reach(self, leader: str | None) -> bool:
        """Whether this gateway cannot reach the leader that a refusal names: the network lets others see it."""
        return bool(leader) and all(stream.scheduler_id != leader for stream in self._streams if stream.alive)

    def _unled_seconds(self, model: str) -> float:
        """Notes a refusal in favor of a leader out of reach, and returns for how long there have been no others."""
        now = time.monotonic()
        first, last = self._unled.get(model, (now, now))
        if now - last > ABSENCE_SECONDS:
            first = now
        self._unled[model] = (first, now)
        return now - first

    def _absent_seconds(self) -> float:
        last = max((stream.answered_at for stream in self._streams), default=self._started)
        return time.monotonic() - max(last, self._started)


def _fence(stream: SchedulerStream, model: str) -> int:
    queue = stream.queues.get(model)
    return 0 if queue is None else queue.fence


def _weight(scheduler_id: str, model: str) -> bytes:
    return hashlib.blake2b(f"{scheduler_id}\0{model}".encode(), digest_size=8).digest()
