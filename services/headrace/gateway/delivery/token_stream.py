"""The tokens of one sequence, each exactly once and in order, whatever happens to the workers."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import Counter

from headrace.errors import (
    HeadraceError,
    Overloaded,
    StageFailed,
    Unavailable,
    WorkerStopping,
)
from headrace.errors.status import from_status
from headrace.errors.tree import GatewayStopping, WorkerLost
from headrace.gateway.delivery.placement.sequence_placement import Placement, Places, queue_timeout
from headrace.gateway.delivery.suspicion import Suspicion
from headrace.gateway.delivery.translation import note_fetched, note_timings, without_known
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.inboxes.inbox import Inbox
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.timing.token_meter import TokenMeter
from headrace.service_clients.scheduler import WORKER_DETAIL
from headrace.v1.worker_pb2 import TokenDelta

RETRY_PAUSE = 0.02
"""Seconds between two tries to get a place."""
STEADY_SECONDS = 5.0
"""Seconds that a worker has computed a sequence after which its loss is not counted with the losses before."""
MAX_ROOM_PAUSE = 1.0
"""Longest pause, in seconds, before a sequence that lost its worker asks for room again."""

RESUBMISSIONS = Counter("headrace_resubmissions", "Sequences moved away from a lost worker", ["model"])
MOVES = Counter("headrace_moves", "Sequences moved away from a worker that was about to stop", ["model"])

_log = logging.getLogger(__name__)


class TokenStream:
    """Places a sequence and reads its tokens. When its worker is lost, places it again with the tokens received so
    far."""

    def __init__(
        self,
        request: SequenceRequest,
        gateway_id: str,
        places: Places,
        fleet: Fleet,
        max_attempts: int,
        known: TokenDelta | None = None,
    ) -> None:
        """`known`: the first tokens, from an earlier request for the same sequence. They are yielded first."""
        self._request = request
        self._deadline = request.envelope.deadline
        self._placement = Placement(request, gateway_id, places, fleet)
        self._max_attempts = max_attempts
        self._attempt = 0
        self._lost_count = 0
        self._attempt_began: float | None = None
        """Time of the first new token of this attempt, in monotonic seconds. None: there is none yet."""
        self._first_token_seconds: float | None = None
        """Time from the first worker's acceptance to the first token. None: not known, or another worker gave it."""
        self._known = known if known is not None and known.token_ids else None
        self._received: list[int] = [] if self._known is None else list(self._known.token_ids)
        self._known_count = len(self._received)
        self._suspicion = Suspicion(request.request_id, fleet.quarantine)
        self._meter = TokenMeter(request.model.model, len(request.prompt_token_ids))
        # Created here so that the metric exists, at zero, before anything is lost.
        self._resubmissions = RESUBMISSIONS.labels(model=request.model.model)
        self._moves = MOVES.labels(model=request.model.model)

    async def deltas(self) -> AsyncGenerator[TokenDelta, None]:
        """Yields deltas up to the one with the finish reason. Raises HeadraceError. Closing the generator cancels the
        request."""
        if self._known is not None:
            yield self._known
        try:
            while True:
                try:
                    async with self._next_attempt() as inbox:
                        while (delta := await inbox.take()) is not None:
                            yield self._accept(delta)
                    return
                except GatewayStopping:
                    raise
                except Overloaded as error:
                    if not self._placement.has_begun:
                        raise
                    await self._wait_for_room(error)
                except WorkerStopping as error:
                    self._placement.leave()
                    self._moves.inc()
                    await self._prepare_retry(error)
                except Unavailable as error:
                    self._placement.exclude(error.details.get(WORKER_DETAIL))
                    await self._prepare_retry(error)
        finally:
            self._placement.settle(len(self._received) - self._known_count, self._first_token_seconds)

    @asynccontextmanager
    async def _next_attempt(self) -> AsyncIterator[Inbox]:
        """Yields the inbox of the next attempt."""
        await self._suspicion.enter_quarantine(self._deadline)
        self._attempt += 1
        self._attempt_began = None
        self._request.envelope.record.note_attempt(self._attempt)
        try:
            async with self._placement.obtain(self._attempt, self._received) as inbox:
                try:
                    yield inbox
                except WorkerLost as error:
                    self._suspicion.note_loss(error)
                    raise
        finally:
            self._suspicion.leave_quarantine()

    async def _prepare_retry(self, error: HeadraceError) -> None:
        """Decides whether to continue after a loss. Waiting for an absent scheduler or worker does not count as an
        attempt, nor does a worker that is about to stop."""
        if self._deadline.expired:
            raise queue_timeout(self._received) from None
        if isinstance(error, StageFailed):
            is_steady = self._attempt_began is not None and time.monotonic() - self._attempt_began > STEADY_SECONDS
            self._lost_count = 1 if is_steady else self._lost_count + 1
            self._resubmissions.inc()
            _log.warning("moving a sequence", extra={"sequence": self._request.request_id, "error": error.message})
        elif error.stage == "schedule" and error.retry_after is not None:
            raise error
        if self._lost_count >= self._max_attempts:
            raise error
        await asyncio.sleep(min(RETRY_PAUSE, self._deadline.remaining))

    async def _wait_for_room(self, error: Overloaded) -> None:
        """Waits for room: a sequence that lost its worker is not a new request and must not end in the middle."""
        if self._deadline.expired:
            raise queue_timeout(self._received) from None
        await asyncio.sleep(min(error.retry_after or RETRY_PAUSE, MAX_ROOM_PAUSE, self._deadline.remaining))

    def _accept(self, delta: TokenDelta) -> TokenDelta:
        """Drops tokens that were already received, by number, and keeps the new ones."""
        if delta.HasField("error"):
            raise from_status(delta.error)
        known = len(self._received)
        if delta.first_index > known:
            raise StageFailed(f"tokens {known} to {delta.first_index - 1} never arrived", stage="decode")
        if delta.first_index < known or (known and delta.prompt_logprobs):
            # A worker that takes over may repeat tokens, and scores the prompt again.
            delta = without_known(delta, known)
        self._received.extend(delta.token_ids)
        if delta.cost:
            self._request.envelope.account.add_cost(delta.cost)
        if delta.HasField("timings"):
            seconds = note_timings(self._request.envelope.record, delta.timings)
            self._first_token_seconds = seconds if self._attempt == 1 else None
        if delta.HasField("fetched_tokens") and not known:
            note_fetched(self._request.envelope.record, delta.fetched_tokens)
        if count := len(delta.token_ids):
            self._suspicion.clear()
            self._attempt_began = self._attempt_began or time.monotonic()
        if count or delta.HasField("embedding"):
            self._meter.count(count)
        return delta
