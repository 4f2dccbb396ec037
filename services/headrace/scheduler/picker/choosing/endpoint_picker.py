"""Shell around the scheduler's core: endpoints are its workers, and a dispatch is the answer to a proxy."""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Reason
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.member import Member
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.picker.choosing import picker_metrics as metrics
from headrace.scheduler.picker.choosing.pick_order import Pick, PickOrder
from headrace.scheduler.picker.choosing.prefix_holders import PrefixHolders
from headrace.scheduler.picker.endpoints.pool_endpoint import BLOCK_TOKENS, EndpointLimits, PoolEndpoint
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad

TICK_SECONDS = 0.2
POOL = "pool"
"""Name of the pool in the core, where it is a model."""
RETRY_SECONDS = 1.0
"""Seconds after which to try again when no endpoint is ready."""
FAULTY_STATUSES = frozenset({502, 503, 504})
"""Statuses by which an endpoint, or the way to it, is taken to be at fault."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    order: PickOrder
    since: float
    pick: "asyncio.Future[Pick]"


@dataclass(slots=True)
class _Open:
    """A request that has an endpoint."""

    pick: Pick
    order: PickOrder
    endpoint: PoolEndpoint
    since: float
    missing_token_count: int
    """Tokens of its prompt that the endpoint is to compute."""
    first_token_seconds: float | None = None
    status: int = 0
    """Status of the response. 0: none has come."""
    has_moved: bool = False
    """Whether another endpoint served it than the picked one."""


class EndpointPicker:
    """Runs on the event loop alone. All requests of the pool are of one model: which adapter or name they ask for is a
    matter of the endpoints, and distinguishes prefixes alone."""

    def __init__(
        self,
        policy: Policy,
        limits: EndpointLimits,
        queue_seconds: float,
        fallback_count: int = 2,
        max_prefix_count: int = 8192,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`queue_seconds`: time for which a request waits for an endpoint. `fallback_count`: endpoints that are named
        beside the picked one. `max_prefix_count`: see `PrefixHolders`."""
        self.core = SchedulingCore(policy)
        self.clock = clock
        self._desk = self.core.desk(POOL)
        self._limits = limits
        self._queue_seconds = queue_seconds
        self._fallback_count = fallback_count
        self._prefixes = PrefixHolders(max_prefix_count)
        self._endpoints: dict[str, PoolEndpoint] = {}
        self.synced = asyncio.Event()
        """Set once it knows which endpoints there are, and how each is."""
        self._waiting: dict[str, _Waiting] = {}
        """Requests that wait for an endpoint, by their ticket's key."""
        self._open: dict[str, _Open] = {}
        self._numbers = itertools.count(1)
        self._events: deque[Event] = deque()
        self._is_feeding = False
        self._failure: Exception | None = None

    @property
    def addresses(self) -> Collection[str]:
        return self._endpoints.keys()

    @property
    def ready_addresses(self) -> frozenset[str]:
        return frozenset(address for address, endpoint in self._endpoints.items() if endpoint.is_ready)

    @property
    def open_count(self) -> int:
        """Requests that have an endpoint and have not ended."""
        return len(self._open)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def open_count_of(self, address: str) -> int:
        """Requests that an endpoint holds, as far as is known."""
        return self._endpoints[address].open_count

    def set_endpoints(self, addresses: Collection[str]) -> None:
        """Takes in which endpoints there are. A new one is not ready until it was scraped."""
        for address in set(self._endpoints) - set(addresses):
            self._leave(self._endpoints.pop(address))
        for address in sorted(set(addresses) - set(self._endpoints)):
            self._endpoints[address] = PoolEndpoint(address, POOL, self._limits)
            # An address that comes again is another incarnation to the core.
            self._endpoints[address].epoch = next(self._numbers) << 20
            _log.info("an endpoint is new", extra={"endpoint": address})
        self._note_seen()

    def take_load(self, address: str, load: ReportedLoad) -> None:
        """Takes in a scrape of an endpoint."""
        if (endpoint := self._endpoints.get(address)) is not None:
            if not endpoint.is_ready:
                _log.info("an endpoint is ready", extra={"endpoint": address})
            endpoint.take_load(load)
            self._report(endpoint)
            self._note_seen()

    def fail_scrape(self, address: str) -> None:
        """Takes in that a scrape of an endpoint failed."""
        metrics.FAILED_SCRAPES.inc()
        if (endpoint := self._endpoints.get(address)) is not None:
            was_ready = endpoint.is_ready
            endpoint.fail_scrape()
            if was_ready and not endpoint.is_ready:
                self._leave(endpoint)
            self._note_seen()

    async def pick(self, order: PickOrder) -> Pick:
        """Returns the endpoints for a request, which is open from then on: see `settle`. Raises Unavailable where none
        is ready, and Overloaded where all have too much to do."""
        now = self.clock()
        self._check_ready(order)
        ticket = self._ticket(order, now)
        waiting = _Waiting(order, now, asyncio.get_running_loop().create_future())
        self._waiting[ticket.key] = waiting
        try:
            self._feed(events.Submitted(ticket))
            return await waiting.pick
        except asyncio.CancelledError:
            self._feed(events.Cancelled(POOL, ticket.key))
            if waiting.pick.done() and not waiting.pick.cancelled() and waiting.pick.exception() is None:
                self.settle(ticket.request_id)
            raise
        finally:
            self._waiting.pop(ticket.key, None)
            metrics.PICK_TIME.observe(self.clock() - now)

    def note_served(self, request_id: str, address: str, status: int) -> None:
        """Takes in the status of a response, and which endpoint gave it. Empty: it is not known, and taken to be the
        picked one. Endpoints before it in the order have failed."""
        if (one := self._open.get(request_id)) is None or one.status:
            return
        one.status, now = status, self.clock()
        if address and address != one.endpoint.address:
            self._move(one, address, now)
        if status in FAULTY_STATUSES:
            self._blame(one.endpoint, now)
        else:
            one.endpoint.trust()
        if one.endpoint.is_ready:
            self._report(one.endpoint)

    def note_piece(self, request_id: str) -> None:
        """Takes in a piece of a response's body: the first one of a stream is its first token."""
        one = self._open.get(request_id)
        if one is None or one.first_token_seconds is not None or not one.order.is_streamed:
            return
        one.first_token_seconds = self.clock() - one.since
        if not one.has_moved and one.status < 400:
            one.endpoint.begin(request_id, one.first_token_seconds)
        metrics.FIRST_TOKEN_TIME.observe(one.first_token_seconds)

    def settle(self, request_id: str, output_token_count: int = 0, *, is_complete: bool = False) -> None:
        """Takes in that a request has ended, or that its proxy is gone. One that is not open is passed over."""
        if (one := self._open.pop(request_id, None)) is None:
            return
        metrics.REQUESTS.labels("failed" if one.status >= 500 else "completed" if is_complete else "cut").inc()
        one.endpoint.end(request_id)
        # A request that failed elsewhere before says nothing about the prediction for where it was picked.
        first_token = None if one.has_moved or one.status >= 400 else one.first_token_seconds
        self._feed(events.Settled(POOL, request_id, output_token_count, first_token))
        if one.endpoint.is_ready:
            self._report(one.endpoint)

    def tick(self) -> None:
        """Lets the core see every endpoint and the time. Expected five times a second."""
        for endpoint in self._endpoints.values():
            if endpoint.is_ready:
                self._report(endpoint)
        self._feed(events.Tick())
        ready_count = len(self.ready_addresses)
        metrics.ENDPOINTS.labels("ready").set(ready_count)
        metrics.ENDPOINTS.labels("not ready").set(len(self._endpoints) - ready_count)
        metrics.OPEN.set(len(self._open))
        metrics.WAITING.set(len(self._waiting))
        if self._desk.demand.wanted is not None:
            metrics.WANTED.set(self._desk.demand.wanted)

    async def keep_ticking(self) -> None:
        """Ticks until cancelled. Raises the error of a core that failed."""
        while self._failure is None:
            self.tick()
            await asyncio.sleep(TICK_SECONDS)
        raise self._failure

    def _check_ready(self, order: PickOrder) -> None:
        """Raises Unavailable where no endpoint may be picked."""
        ready = self.ready_addresses
        if order.subset is not None and not order.subset & ready:
            message = f"none of the {len(order.subset)} endpoints that the gateway allows is ready"
            raise Unavailable(message, retry_after=RETRY_SECONDS)
        if not ready:
            message = f"none of the {len(self._endpoints)} endpoints of the pool is ready"
            raise Unavailable(message, retry_after=RETRY_SECONDS)

    def _ticket(self, order: PickOrder, now: float) -> Ticket:
        held = self._prefixes.held(order.chain)
        return Ticket(
            request_id=f"r{next(self._numbers)}",
            attempt=1,
            model=POOL,
            tenant=order.tenant,
            arrival=now,
            deadline=now + self._queue_seconds,
            prompt_token_count=order.prompt_token_count,
            max_token_count=order.max_token_count,
            urgency=order.urgency,
            allowed=order.subset,
            held={address: HeldPrefix(count) for address, count in held.items() if address in self._endpoints},
            first_token_seconds=order.first_token_seconds,
        )

    def _feed(self, event: Event) -> None:
        """Feeds the core an event and carries out its decisions. Events that this causes are handled afterwards."""
        self._events.append(event)
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while self._events:
                now = self.clock()
                for decision in self.core.handle(self._events.popleft(), now):
                    self._perform(decision, now)
        except Exception as error:
            # Decisions that were not carried out are lost, so the process must not continue. See `keep_ticking`.
            self._failure = error
            raise
        finally:
            self._is_feeding = False

    def _perform(self, decision: decisions.Decision, now: float) -> None:
        match decision:
            case decisions.Dispatch(worker_id=address, members=members):
                sent = [self._send(member, self._endpoints[address], now) for member in members]
                self._report(self._endpoints[address])
                for member, is_sent in zip(members, sent, strict=True):
                    outcome = events.Accepted if is_sent else events.Failed
                    self._events.append(outcome(member.ticket, address))
            case decisions.Reject(ticket, reason, retry_after):
                self._refuse(ticket, _to_error(reason, round(retry_after, 3)))
            case decisions.Expire(ticket):
                message = f"all endpoints were full for {self._queue_seconds:g} s"
                self._refuse(ticket, Overloaded(message, retry_after=RETRY_SECONDS))
            case decisions.Compare(first_token=first_token):
                metrics.PREDICTION_ERROR.observe(first_token.error)

    def _send(self, member: Member, endpoint: PoolEndpoint, now: float) -> bool:
        """Gives a request its endpoints. Returns whether it still waited."""
        ticket, chosen = member.ticket, member.candidates[0]
        if (waiting := self._waiting.get(ticket.key)) is None or waiting.pick.done():
            return False
        held_token_count = min(chosen.held.in_memory * BLOCK_TOKENS, ticket.prompt_token_count)
        missing = ticket.prompt_token_count - held_token_count
        others = [one for one in member.candidates[1:] if self._may_serve(one.worker_id, waiting.order)]
        others.sort(key=lambda one: (bool(one.remark), one.first_token_seconds, one.load, one.worker_id))
        pick = Pick(ticket.request_id, (endpoint.address, *(one.worker_id for one in others[: self._fallback_count])))
        endpoint.send(ticket.request_id, missing, now + chosen.first_token_seconds)
        self._open[ticket.request_id] = _Open(pick, waiting.order, endpoint, now, missing)
        self._prefixes.note(endpoint.address, waiting.order.chain)
        metrics.HELD_SHARE.observe(held_token_count / ticket.prompt_token_count)
        waiting.pick.set_result(pick)
        return True

    def _may_serve(self, address: str, order: PickOrder) -> bool:
        is_allowed = order.subset is None or address in order.subset
        return is_allowed and address in self._endpoints and self._endpoints[address].is_ready

    def _refuse(self, ticket: Ticket, error: HeadraceError) -> None:
        if (waiting := self._waiting.get(ticket.key)) is not None and not waiting.pick.done():
            try:
                self._check_ready(waiting.order)
            except Unavailable as unavailable:
                error = unavailable
            waiting.pick.set_exception(error)

    def _move(self, one: _Open, address: str, now: float) -> None:
        """Counts a request where it was served. The endpoints before that one failed it, unless the proxy made a
        choice of its own."""
        metrics.FALLBACKS.inc()
        request_id, endpoints = one.pick.request_id, one.pick.endpoints
        before = endpoints[: endpoints.index(address)] if address in endpoints else ()
        one.has_moved = True
        one.endpoint.end(request_id)
        for failed in before:
            if failed in self._endpoints:
                self._blame(self._endpoints[failed], now)
        if (served := self._endpoints.get(address)) is not None:
            served.send(request_id, one.missing_token_count, now)
            self._prefixes.note(address, one.order.chain)
            one.endpoint = served

    def _blame(self, endpoint: PoolEndpoint, now: float) -> None:
        """Keeps requests from an endpoint that failed one, for a while."""
        _log.warning("an endpoint failed a request", extra={"endpoint": endpoint.address})
        endpoint.distrust(now)
        self._feed(events.WorkerLost(POOL, endpoint.address, endpoint.epoch))

    def _note_seen(self) -> None:
        if all(endpoint.was_seen for endpoint in self._endpoints.values()):
            self.synced.set()

    def _report(self, endpoint: PoolEndpoint) -> None:
        now = self.clock()
        self._feed(events.WorkerReported(endpoint.report(now), answers=endpoint.answers(now)))

    def _leave(self, endpoint: PoolEndpoint) -> None:
        """Takes an endpoint away from the core. Its requests are followed to their ends."""
        _log.info("an endpoint is not ready any more", extra={"endpoint": endpoint.address})
        endpoint.is_ready = False
        self._prefixes.forget(endpoint.address)
        self._feed(events.WorkerLeft(POOL, endpoint.address, endpoint.epoch))


def _to_error(reason: Reason, retry_after: float) -> HeadraceError:
    """Returns the error of a request that gets no endpoint."""
    match reason:
        case Reason.QUEUE_FULL | Reason.DISPLACED:
            message = f"too many requests wait for an endpoint; try again in {retry_after} s"
            return Overloaded(message, retry_after=retry_after)
        case Reason.LATE:
            message = f"no endpoint can answer in the time that is wanted; try again in {retry_after} s"
            return Overloaded(message, retry_after=retry_after)
        case _:
            return Unavailable("no endpoint of the pool is ready", retry_after=RETRY_SECONDS)
