"""The gateway's own choice of a worker while no scheduler answers."""

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

from prometheus_client import Counter

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.errors.status import from_status
from headrace.gateway.delivery.placement.translation import to_batch_member, to_place
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.service_clients.scheduler import WORKER_DETAIL
from headrace.v1.scheduler_pb2 import Generation, Place, Submission
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse

DISPATCH_SECONDS = 1.0
PAUSE_SECONDS = 0.05
"""Seconds between two checks for room while every worker is full."""
PATIENCE_SECONDS = 15.0
"""Longest wait of a new request for room, in seconds: without a scheduler there is no fair queue."""

SELF_PLACEMENTS = Counter("headrace_self_placements", "Sequences placed by the gateway without a scheduler", ["model"])


class ReachableWorkers(Protocol):
    """The workers that a gateway is attached to."""

    def reachable(self, generation: Generation) -> Sequence[WorkerFacts]:
        """The workers that could run a request."""

    async def dispatch(self, worker_id: str, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        """Hands a batch over. Raises HeadraceError."""


class SelfPlacement:
    """Picks the less loaded of two workers chosen at random (Mitzenmacher, The Power of Two Choices, 2001). Workers
    refuse requests that they have no room for, so several gateways may do this at once."""

    def __init__(self, workers: ReachableWorkers) -> None:
        self._workers = workers

    async def place(self, submission: Submission, deadline: Deadline) -> Place:
        """Finds a worker with room. Raises Overloaded if there is none for too long, Unavailable if a worker does not
        answer, and any error with which a worker refuses the request."""
        generation = submission.generation
        resumes = bool(generation.output_token_ids or submission.excluded_worker_ids)
        patience = deadline if resumes else Deadline.after(min(PATIENCE_SECONDS, deadline.remaining))
        avoided = set(submission.excluded_worker_ids)
        while True:
            known = self._workers.reachable(generation)
            for worker in _two_of([each for each in known if each.worker_id not in avoided] or known):
                if (place := await self._try(worker, submission, deadline)) is not None:
                    SELF_PLACEMENTS.labels(model=generation.model).inc()
                    return place
                avoided.add(worker.worker_id)
            if patience.expired:
                message = f"no scheduler answers, and no worker of {generation.model} has room"
                raise Overloaded(message, stage="schedule", retry_after=1)
            avoided = set(submission.excluded_worker_ids)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _try(self, worker: WorkerFacts, submission: Submission, deadline: Deadline) -> Place | None:
        """Returns the place, or None if this worker has no room."""
        member = to_batch_member(submission, deadline.remaining)
        try:
            response = await self._workers.dispatch(worker.worker_id, [member], DISPATCH_SECONDS)
            refusal = from_status(response.outcomes[0]) if response.outcomes[0].code else None
        except (HeadraceError, IndexError) as error:
            # The worker may or may not have the request: a new attempt number tells the two apart.
            raise _not_taken(worker.worker_id) from error
        if isinstance(refusal, Overloaded):
            return None
        if refusal is not None:
            refusal.details.setdefault(WORKER_DETAIL, worker.worker_id)
            raise refusal
        return to_place(worker, response.status.epoch or worker.epoch)


def _not_taken(worker_id: str) -> Unavailable:
    message = f"worker {worker_id} did not take the request"
    return Unavailable(message, stage="dispatch", details={WORKER_DETAIL: worker_id})


def _two_of(workers: Sequence[WorkerFacts]) -> list[WorkerFacts]:
    """Two workers at random, the one with more room first."""
    chosen = random.sample(workers, min(2, len(workers)))
    return sorted(chosen, key=lambda worker: worker.open_request_count - worker.credit_count)
