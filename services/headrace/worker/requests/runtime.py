"""Runs dispatched requests: connects the engine thread to the outboxes of gateways."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats, Urgency
from headrace.engine.pace.step_pace import StepPace
from headrace.errors import (
    DeadlineExceeded,
    HeadraceError,
    InternalError,
    Overloaded,
    StageFailed,
    Unavailable,
    Unsupported,
    WorkerStopping,
)
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.telemetry.traces import is_recorded, record_span
from headrace.worker.requests.assignment import Assignment
from headrace.worker.requests.block_transfers import BlockTransfers
from headrace.worker.requests.frame import SessionDelta
from headrace.worker.requests.outbox import Outbox
from headrace.worker.requests.sessions import Session, Sessions
from headrace.worker.requests.shared_cost import SharedCost
from headrace.worker.stepping.engine_crash import exit_after_crash
from headrace.worker.stepping.engine_thread import EngineThread, StepReport

MAX_LINKS = 16
"""Maximum number of traces that the span of one step links to."""

_log = logging.getLogger(__name__)


class Runtime:
    """Owner of the sessions, the outboxes and the engine thread. Runs on the event loop."""

    def __init__(self, engine: Engine, model: str, attach_seconds: float, hourly_price: float = 0.0) -> None:
        self.spec = engine.spec
        self.sessions = Sessions()
        self.draining = False
        self.stats: EngineStats = engine.stats()
        self.pace = StepPace()
        self.fence = 0
        """Largest fencing number under which a batch came."""
        self.replaced_block_count = 0
        """Cached KV blocks that gave way to others since the start."""
        self._unread_token_count = 0
        """Tokens of accepted requests that the engine has not taken yet."""
        self._model = model
        self._attach_seconds = attach_seconds
        self._shared_cost = SharedCost(hourly_price)
        self._outboxes: dict[str, Outbox] = {}
        self._attached: set[str] = set()
        self.thread = EngineThread(engine, self._on_report, exit_after_crash)
        self.transfers = BlockTransfers(self.thread, engine.spec, self.submit)
        self._on_change: Callable[[], None] = lambda: None
        self._on_blocks: Callable[[BlockEvents], None] = lambda _events: None

    def start(self, on_change: Callable[[], None], on_blocks: Callable[[BlockEvents], None]) -> None:
        """Starts the engine. `on_change` is called when the load changed, `on_blocks` when cached blocks did, in memory
        or on the disk."""
        self._on_change, self._on_blocks = on_change, on_blocks
        self.thread.start()
        self.transfers.start(on_blocks)

    async def prove(self, timeout: float) -> None:
        """Makes the model generate something before the worker is announced. Raises HeadraceError, also when it takes
        longer than `timeout` seconds."""
        failed = f"model {self._model} does not work, so the worker takes no requests"
        try:
            await self.thread.prove(timeout)
        except TimeoutError:
            raise Unavailable(f"{failed}: it made nothing within {timeout:g} s") from None
        except Exception as error:
            raise InternalError(f"{failed}: {error}") from error
        self.pace = self.thread.pace

    @property
    def credit_count(self) -> int:
        """Number of sequences that would be accepted now: none while some still wait to run."""
        if self.draining or self.stats.waiting_count > 0:
            return 0
        return max(0, self.spec.max_running_count - len(self.sessions) - self.transfers.computed_count)

    @property
    def waiting_token_count(self) -> int:
        """Number of tokens accepted and not yet computed, those included that the engine has not taken yet."""
        return self._unread_token_count + self.stats.waiting_token_count

    def accept_batch(self, members: Iterable[Assignment | HeadraceError], fence: int) -> list[HeadraceError | None]:
        """Takes over the members of a batch. Returns for each the error by which it is refused, or None.

        A member that could not be read is an error already, and is refused with it.
        A fence of zero claims no lead. Another one must not be smaller than any before: its sender has lost the lead.
        """
        if 0 < fence < self.fence:
            message = f"a newer scheduler leads model {self._model}: its lease is number {self.fence}, not {fence}"
            refusal = Unavailable(message, stage="dispatch")
            return [refusal for _ in members]
        self.fence = max(self.fence, fence)
        return [member if isinstance(member, HeadraceError) else self.accept(member) for member in members]

    def accept(self, assignment: Assignment) -> HeadraceError | None:
        """Takes over one request. Returns the error by which it is refused, or None."""
        try:
            self._check(assignment)
        except HeadraceError as error:
            return error
        request = assignment.request
        session = Session(
            assignment.request_id,
            assignment.attempt,
            assignment.gateway_id,
            assignment.traceparent,
            pausable=request.urgency is Urgency.BATCH,
            prompt_count=request.token_count,
        )
        replaced = self.sessions.open(session, assignment.remaining_seconds, self._expire)
        if replaced is not None:
            self._stop(replaced)
        self._outbox(assignment.gateway_id)
        seconds, source = assignment.remaining_seconds, assignment.prefill_source
        self.transfers.begin(session.engine_id, request, seconds, source, session.note_fetched)
        _log.debug("accepted", extra={"sequence": session.request_id, "attempt": session.attempt})
        return None

    def submit(self, request: EngineRequest) -> None:
        """Hands a request to the engine."""
        self._unread_token_count += request.token_count
        self.thread.submit(request)

    def cancel(self, request_id: str, attempt: int) -> None:
        """Drops a request. An unknown one is ignored: it has ended."""
        session = self.sessions.of_request(request_id)
        if session is not None and session.attempt <= attempt:
            self._drop(session)

    def inquire(self, attempts: Iterable[tuple[str, int]], outbox: Outbox) -> None:
        """Ends the requests of a gateway, each with its attempt, that are not held here: their last delta got lost."""
        lost = StageFailed("the worker does not hold the request any more", stage="dispatch")
        unknown = [
            SessionDelta(request_id, attempt, error=lost)
            for request_id, attempt in attempts
            if self.sessions.newest_attempt(request_id) != attempt
        ]
        if unknown:
            outbox.put(self.stats.progress_count, unknown)

    def attach(self, gateway_id: str) -> Outbox:
        """Connects a gateway. An older stream of the same gateway is closed, because it has no reader any more."""
        if gateway_id in self._attached:
            self.detach(gateway_id, self._outboxes[gateway_id])
        self._attached.add(gateway_id)
        return self._outbox(gateway_id)

    def detach(self, gateway_id: str, outbox: Outbox) -> None:
        """Disconnects a gateway and drops its requests, which have no reader any more.

        Should it come back soon it is notified of the dropped requests: it may have noticed first that the stream
        broke, and had a request placed here again before this worker knew."""
        outbox.close()
        if self._outboxes.get(gateway_id) is not outbox:
            return
        self._attached.discard(gateway_id)
        del self._outboxes[gateway_id]
        for session in self.sessions.of_gateway(gateway_id):
            self._drop(session)
            self._outbox(gateway_id)
            self._fail(session, StageFailed("the worker lost sight of the gateway", stage="dispatch"))

    def refuse_new(self) -> None:
        """Refuses requests from now on, and computes no prompts for others: see `drain`."""
        self.draining = True
        self.transfers.refuse_new()
        self._on_change()

    def move_all(self) -> int:
        """Gives every request up, so that its gateway has it continued elsewhere. Returns their number."""
        moved = list(self.sessions)
        for session in moved:
            self._drop(session)
            self._fail(session, WorkerStopping(stage="decode"))
        return len(moved)

    def close_outboxes(self) -> None:
        """Ends the streams to all gateways after what still waits there."""
        for outbox in self._outboxes.values():
            outbox.close()

    def stop(self) -> None:
        self.transfers.stop()
        self.thread.stop(timeout=2.0)

    def _check(self, asked: Assignment) -> None:
        """Raises the HeadraceError by which a request is refused."""
        if self.draining:
            raise Unavailable("the worker is about to stop", stage="dispatch")
        if asked.model != self._model:
            raise Unavailable(f"this worker serves {self._model}, not {asked.model}", stage="dispatch")
        if (adapter := asked.request.adapter) and adapter not in self.spec.adapters:
            raise Unavailable(f"this worker has no adapter {adapter}", stage="dispatch")
        if asked.embeds != (self.spec.embedding_size is not None):
            made = "text" if asked.embeds else "embeddings"
            raise Unsupported(f"model {self._model} makes {made}, which is not what was asked for", param="model")
        _check_ids(asked.request, self.spec.vocabulary_size)
        if self.sessions.newest_attempt(asked.request_id) >= asked.attempt:
            raise Unavailable("a newer attempt of this request is already here", stage="dispatch")
        # Each session of the batch class can be paused to make room for a realtime one.
        paused_count = self.sessions.pausable_count if asked.request.urgency is Urgency.REALTIME else 0
        if len(self.sessions) - paused_count >= self.spec.max_running_count:
            raise Overloaded("the worker has no credit left", stage="dispatch")

    def _stop(self, session: Session) -> None:
        """Takes a request out of the engine, or keeps it from beginning."""
        self.transfers.cancel(session.engine_id)
        self.thread.cancel(session.engine_id)

    def _outbox(self, gateway_id: str) -> Outbox:
        """Returns the outbox of a gateway. If the gateway does not attach in time, its requests are dropped."""
        if gateway_id not in self._outboxes:
            outbox = self._outboxes[gateway_id] = Outbox()
            asyncio.get_running_loop().call_later(self._attach_seconds, self._give_up_absent, gateway_id, outbox)
        return self._outboxes[gateway_id]

    def _give_up_absent(self, gateway_id: str, outbox: Outbox) -> None:
        if gateway_id not in self._attached and self._outboxes.get(gateway_id) is outbox:
            _log.warning("gateway did not attach", extra={"gateway": gateway_id})
            del self._outboxes[gateway_id]
            for session in self.sessions.of_gateway(gateway_id):
                self._drop(session)

    def _drop(self, session: Session) -> None:
        self.sessions.close(session.engine_id)
        self._stop(session)
        self._on_change()

    def _expire(self, session: Session) -> None:
        stage = "decode" if session.first_token_time else "prefill"
        error = DeadlineExceeded(f"the request ran out of time during {stage}", stage=stage)
        self._drop(session)
        self._fail(session, error)

    def _fail(self, session: Session, error: HeadraceError) -> None:
        delta = SessionDelta(session.request_id, session.attempt, error=error)
        outbox = self._outboxes.get(session.gateway_id)
        if outbox is not None:
            outbox.put(self.stats.progress_count, [delta])

    def _on_report(self, report: StepReport) -> None:
        before = self._load()
        costs = self._costs(report)
        self.stats, self.pace = report.stats, report.pace
        self._unread_token_count -= report.taken_token_count
        for engine_id, error in report.refusals:
            self._refuse(engine_id, error)
        for engine_id in report.admitted:
            if (session := self.sessions.get(engine_id)) is not None:
                session.started_time = report.start_time
        self.transfers.on_report(report)
        self._link(report)
        self._deliver(report.deltas, costs)
        if self._load() != before:
            self._on_change()
        self.replaced_block_count += len(report.block_events.removed)
        if report.block_events.stored or report.block_events.removed:
            self._on_blocks(report.block_events)

    def _load(self) -> tuple[int, ...]:
        """Returns the figures of which every change is reported at once."""
        stats = self.stats
        counts = (stats.running_count, stats.waiting_count, stats.used_block_count, self.waiting_token_count)
        return (*counts, len(self.sessions))

    def _refuse(self, engine_id: str, error: HeadraceError) -> None:
        session = self.sessions.get(engine_id)
        if session is not None:
            self.sessions.close(engine_id)
            self._fail(session, error)

    def _link(self, report: StepReport) -> None:
        """Records a step that took in recorded requests as a span that links to all others that it served: they waited
        for each other. Later steps are not recorded, because there is one for every token."""
        taken = [session for name in report.admitted if (session := self.sessions.get(name)) is not None]
        first = next((session for session in taken if is_recorded(session.traceparent)), None)
        if first is None:
            return
        served = {delta.request_id for delta in report.deltas} | set(report.admitted)
        others = [session for name in served if (session := self.sessions.get(name)) not in (None, first)]
        linked = [other.traceparent for other in others if other is not None and is_recorded(other.traceparent)]
        attributes = {"headrace.step": report.stats.step_count, "headrace.sequence_count": len(served)}
        record_span("step", first.traceparent, report.start_time, time.time(), attributes, linked[:MAX_LINKS])

    def _costs(self, report: StepReport) -> dict[str, float]:
        """Returns the price of the step for each of its requests; nothing where time has no price."""
        if not self._shared_cost.is_known:
            return {}
        found = ((delta.request_id, self.sessions.get(delta.request_id)) for delta in report.deltas)
        unread = {name: one.prompt_count for name, one in found if one is not None and one.first_token_time is None}
        return self._shared_cost.share(report.pace.busy_seconds - self.pace.busy_seconds, report.deltas, unread)

    def _deliver(self, deltas: list[Delta], costs: dict[str, float]) -> None:
        now = time.time()
        by_gateway: defaultdict[str, list[SessionDelta]] = defaultdict(list)
        for delta in deltas:
            session = self.sessions.get(delta.request_id)
            if session is not None:
                told = self._address(delta, session, now)
                told.cost = costs.get(delta.request_id, 0.0)
                by_gateway[session.gateway_id].append(told)
        for gateway_id, addressed in by_gateway.items():
            self._outboxes[gateway_id].put(self.stats.progress_count, addressed)
        for gateway_id, outbox in self._outboxes.items():
            if gateway_id not in by_gateway:
                outbox.note_step(self.stats.progress_count)

    def _address(self, delta: Delta, session: Session, now: float) -> SessionDelta:
        """Names the attempt that a delta belongs to. Its first and last carry timings; the last ends the session."""
        is_first = session.first_token_time is None
        if is_first:
            session.first_token_time = now
        told = SessionDelta(session.request_id, session.attempt, delta, fetched=session.fetched if is_first else None)
        if is_first or delta.finish_reason is not None:
            told.timings = session.timings(now)
        if delta.finish_reason is not None:
            self.sessions.close(session.engine_id)
            session.record_spans(now)
        return told


def _check_ids(request: EngineRequest, vocabulary_size: int) -> None:
    """Raises InvalidRequest for an id that the kernels must not see: they use it as an index, unchecked."""
    check_token_ids(request.prompt_token_ids, vocabulary_size, "prompt_token_ids")
    check_token_ids(request.output_token_ids, vocabulary_size, "output_token_ids")
    check_token_ids(request.sampling.stop_token_ids, vocabulary_size, "stop_token_ids")
    check_token_ids(request.sampling.logit_bias, vocabulary_size, "logit_biases")
    if (limit := request.sampling.reasoning_limit) is not None:
        check_token_ids(limit.end, vocabulary_size, "reasoning_limit")
