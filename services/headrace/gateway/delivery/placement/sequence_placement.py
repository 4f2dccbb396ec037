"""Places for one sequence on workers, one after another while they are lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, QueueTimeout, StageFailed
from headrace.gateway.delivery.placement.placed_worker import PlacedWorker
from headrace.gateway.delivery.placement.translation import to_settlement, to_submission
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.inboxes.inbox import Inbox
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.v1.scheduler_pb2 import Place, Settlement, Submission


class Places(Protocol):
    """Source of places on workers: see Schedulers."""

    async def place(self, submission: Submission, deadline: Deadline) -> Place:
        """Waits until a worker has accepted a request. Raises HeadraceError."""

    def settle(self, settlement: Settlement) -> None:
        """Reports what a request has used."""


class Placement:
    """Asks for a place, and opens the inbox in which the tokens of its worker arrive."""

    def __init__(self, request: SequenceRequest, gateway_id: str, places: Places, fleet: Fleet) -> None:
        self._request = request
        self._deadline = request.envelope.deadline
        self._gateway_id = gateway_id
        self._places = places
        self._fleet = fleet
        self._excluded: list[str] = []
        self._worker: PlacedWorker | None = None
        self._is_withdrawn = False
        """Whether it was given up while a scheduler had it, which may have sent it to a worker by then."""
        self._left: PlacedWorker | None = None
        """Worker that gave the request up, and holds its KV blocks for a moment."""

    @property
    def has_begun(self) -> bool:
        """Whether a worker had the request, or may have had it."""
        return bool(self._excluded)

    def exclude(self, worker_id: str | None) -> None:
        """Asks for another worker than this the next time, if there is one."""
        if worker_id and worker_id not in self._excluded:
            self._excluded.append(worker_id)

    def leave(self) -> None:
        """Notes that the worker gave the request up because it is about to stop."""
        self._left = self._worker

    @asynccontextmanager
    async def obtain(self, attempt: int, received: Sequence[int]) -> AsyncIterator[Inbox]:
        """Yields the inbox of an attempt that a worker has accepted, and cancels it there unless it is read to its end.
        Both the wait for the place and the reading end at the deadline, and when the gateway stops. `received`: output
        tokens that are known. Raises HeadraceError: QueueTimeout for a deadline that passed without a place."""
        model = self._request.model
        inbox = self._fleet.inboxes.open(self._request.request_id, attempt, (model.model, model.parent))
        try:
            with inbox.expiring(self._deadline):
                await self._place(inbox, attempt, received)
                yield inbox
        finally:
            self._close(inbox)

    def settle(self, output_token_count: int, first_token_seconds: float | None) -> None:
        """Reports what was used, for fairness among tenants, and how long the first token took, for predictions, once
        the request has had a place, or may have had one: the scheduler remembers it until then."""
        if self.has_begun or self._is_withdrawn:
            self._places.settle(to_settlement(self._request, output_token_count, first_token_seconds))

    async def _place(self, inbox: Inbox, attempt: int, received: Sequence[int]) -> None:
        submission = to_submission(self._request, attempt, received, self._excluded, self._gateway_id, self._left)
        since = time.monotonic()
        try:
            async with inbox.placing():
                place = await self._places.place(submission, self._deadline)
                self._worker, self._left = PlacedWorker(place.worker_id, place.worker_address), None
                # If this worker is lost, before or after the first token, the next attempt goes elsewhere if it can.
                self.exclude(place.worker_id)
                attachment = await self._fleet.attachment_for(place, since, self._deadline.remaining)
        except asyncio.CancelledError:
            self._is_withdrawn = True
            raise
        except DeadlineExceeded:
            self._is_withdrawn = True
            raise queue_timeout(received) from None
        self._fleet.inboxes.assign(inbox, attachment.worker_id)
        if not attachment.alive:
            raise StageFailed(f"worker {attachment.worker_id} was lost", stage="dispatch")
        self._request.envelope.record.note_place(place.worker_id, place.queue_seconds)

    def _close(self, inbox: Inbox) -> None:
        self._fleet.inboxes.close(inbox)
        if inbox.worker_id is not None and not inbox.ended:
            self._fleet.cancel(inbox.worker_id, inbox.request_id, inbox.attempt)


def queue_timeout(received: Sequence[int]) -> DeadlineExceeded:
    """Returns the error for a deadline that passed without a place. A request with tokens was running, not queued."""
    if received:
        return DeadlineExceeded("the deadline passed while a lost worker was replaced", stage="queue")
    return QueueTimeout(stage="queue")
