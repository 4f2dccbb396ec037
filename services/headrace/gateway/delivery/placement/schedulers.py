"""Path from this gateway to a place for a request: a scheduler that answers, or the gateway's own choice."""

import asyncio
import hashlib
import time
from collections.abc import Sequence

from headrace.domain.deadline import Deadline
from headrace.gateway.delivery.placement.self_placement import SelfPlacement
from headrace.service_clients.scheduler import SchedulerStream
from headrace.v1.scheduler_pb2 import Place, Settlement, Submission

ABSENCE_SECONDS = 1.0
"""Seconds without an answer from any scheduler after which the gateway places requests itself."""
LOOK_SECONDS = 0.02


class Schedulers:
    """Chooses among several schedulers. While none leads a model, all gateways that see the same schedulers alive ask
    the same one, which then takes the lead (rendezvous hashing: Thaler and Ravishankar, 1996)."""

    def __init__(self, streams: Sequence[SchedulerStream], alone: SelfPlacement) -> None:
        self._streams = streams
        self._alone = alone
        self._started = time.monotonic()

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
        return await stream.submit(submission, deadline.remaining)

    def settle(self, settlement: Settlement) -> None:
        """Tells the model's scheduler what a request has used."""
        if (stream := self._leader(settlement.model)) is not None:
            stream.settle(settlement)

    def _leader(self, model: str) -> SchedulerStream | None:
        """Returns the scheduler that says it leads the model, else the one that all gateways would choose."""
        alive = [stream for stream in self._streams if stream.alive]
        return max(alive, key=lambda stream: (_fence(stream, model), _weight(stream.scheduler_id, model)), default=None)

    def _absent_seconds(self) -> float:
        last = max((stream.answered_at for stream in self._streams), default=self._started)
        return time.monotonic() - max(last, self._started)


def _fence(stream: SchedulerStream, model: str) -> int:
    queue = stream.queues.get(model)
    return 0 if queue is None else queue.fence


def _weight(scheduler_id: str, model: str) -> bytes:
    return hashlib.blake2b(f"{scheduler_id}\0{model}".encode(), digest_size=8).digest()
