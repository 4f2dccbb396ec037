"""A gateway's own choice of a worker, for as long as no scheduler answers."""

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

from prometheus_client import Counter

from headrace.clients.scheduler import WORKER_DETAIL
from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.errors.status import from_status
from headrace.rpc.deadline import Deadline
from headrace.v1.scheduler_pb2 import Generation, Place, Submission
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse, WorkerStatus

DISPATCH_SECONDS = 1.0
PAUSE_SECONDS = 0.05
"""Between two looks for room, where every worker is full."""
PATIENCE_SECONDS = 15.0
"""Longest wait of a newcomer for room: without a scheduler there is no fair queue."""

SELF_PLACEMENTS = Counter("headrace_self_placements", "Sequences placed by the gateway without a scheduler", ["model"])


class ReachableWorkers(Protocol):
    """The workers that a gateway is attached to."""

    def reachable(self, generation: Generation) -> Sequence[WorkerStatus]:
        """Statuses of the workers that could run a request."""

    async def dispatch(self, worker_id: str, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        """Hands a batch over. Raises HeadraceError."""


class SelfPlacement:
    """Takes the less loaded of two workers chosen at random (Mitzenmacher, The Power of Two Choices, 2001). A worker
    refuses what it has no room for, so that several gateways may do so at once."""

    def __init__(self, workers: ReachableWorkers) -> None:
        self._workers = workers

    async def place(self, submission: Submission, deadline: Deadline) -> Place:
        """Finds a worker with room. Raises Overloaded when there is none for too long, Unavailable when a worker does
        not answer, and whatever a worker refuses the request with."""
        generation = submission.generation
        resumes = bool(generation.output_token_ids or submission.excluded_worker_ids)
        patience = deadline if resumes else Deadline.after(min(PATIENCE_SECONDS, deadline.remaining))
        avoided = set(submission.excluded_worker_ids)
        while True:
            known = self._workers.reachable(generation)
            for status in _two_of([worker for worker in known if worker.worker_id not in avoided] or known):
                if (place := await self._try(status, submission, deadline)) is not None:
                    SELF_PLACEMENTS.labels(model=generation.model).inc()
                    return place
                avoided.add(status.worker_id)
            if patience.expired:
                message = f"no scheduler answers, and no worker of {generation.model} has room"
                raise Overloaded(message, stage="schedule", retry_after=1)
            avoided = set(submission.excluded_worker_ids)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _try(self, status: WorkerStatus, submission: Submission, deadline: Deadline) -> Place | None:
        """The place, or None if this worker has no room."""
        member = BatchMember(generation=submission.generation, priority_class=submission.priority_class)
        member.remaining_duration.FromNanoseconds(int(deadline.remaining * 1e9))
        try:
            response = await self._workers.dispatch(status.worker_id, [member], DISPATCH_SECONDS)
            refusal = from_status(response.outcomes[0]) if response.outcomes[0].code else None
        except (HeadraceError, IndexError) as error:
            # It may have the request or not: another attempt must tell the one from the other.
            raise _not_taken(status.worker_id) from error
        if isinstance(refusal, Overloaded):
            return None
        if refusal is not None:
            refusal.details.setdefault(WORKER_DETAIL, status.worker_id)
            raise refusal
        epoch = response.status.epoch or status.epoch
        return Place(worker_id=status.worker_id, worker_address=status.address, worker_epoch=epoch)


def _not_taken(worker_id: str) -> Unavailable:
    message = f"worker {worker_id} did not take the request"
    return Unavailable(message, stage="dispatch", details={WORKER_DETAIL: worker_id})


def _two_of(statuses: Sequence[WorkerStatus]) -> list[WorkerStatus]:
    """Two workers at random, the one with more room first."""
    chosen = random.sample(statuses, min(2, len(statuses)))
    return sorted(chosen, key=lambda status: status.open_request_count - status.credit_count)
