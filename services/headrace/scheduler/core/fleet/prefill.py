"""Decision whether another worker computes a prompt whose request runs elsewhere, or gives blocks of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.transfer_terms import TransferTerms
from headrace.scheduler.core.fleet.worker import KNOWN_TOKEN_COUNT, Worker
from headrace.scheduler.core.queueing.ticket import Ticket

CANDIDATE_COUNT = 4
"""Number of least loaded prefill workers per price that are considered for each ticket."""
FETCH_SECONDS = 0.02
"""Seconds that fetching blocks takes beside their transfer: a connection, and turns of both engines."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """Worker that computes a prompt for the one that runs the request, or has blocks of it, or the reason why none
    does."""

    worker_id: str = ""
    """Empty: the prompt is computed where the request runs."""
    address: str = ""
    remark: str = ""
    """Figures that decided. Empty: the model has no prefill workers."""
    held_only: bool = False
    """Whether it only gives the blocks that it has."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Predicted times of a prompt, in seconds."""

    first_token: float
    """Time until its last token is computed, or has come."""
    waits: float
    """Sum over all requests that wait for it: its own, and the ones that it delays."""


def choose_prefill(ticket: Ticket, worker: Worker, fleet: Fleet, terms: TransferTerms, now: float) -> Prefill:
    """Picks the prefill worker from which the blocks of a prompt come soonest, if that pays: if all requests together
    wait less than if `worker` computed the prompt between the steps of its running sequences. The request itself may
    wait longer then, but not beyond the time when its first token is due. Without prefill workers, blocks come from the
    worker that holds the longest prefix, if they come sooner than they are computed."""
    missing = worker.missing_token_count(ticket)
    if (left := _from_left(ticket, worker, missing, terms)) is not None:
        return left
    if not fleet.has_prefill or worker.report.is_prefill:
        return _from_holder(ticket, worker, fleet, terms, now) or Prefill()
    if missing < terms.min_token_count:
        return Prefill(remark=f"only {missing} tokens are missing")
    sources = list(_sources(ticket, worker, fleet, now))
    if not sources:
        return Prefill(remark="no prefill worker can be used")
    here = _cost_here(worker, missing)
    seconds, source = min(
        ((_seconds_there(ticket, source, worker, missing, terms), source) for source in sources),
        key=lambda pair: (pair[0], pair[1].worker_id),
    )
    there = f"{seconds:.3f} s by {source.worker_id}"
    figures = f"{there}, {here.first_token:.3f} s here, {here.waits:.3f} s with those held up"
    if seconds >= here.waits or seconds > max(here.first_token, ticket.due - now):
        return Prefill(remark=f"a transfer does not pay: {figures}")
    source.lend(source.missing_token_count(ticket))
    fleet.reindex(source)
    return Prefill(source.worker_id, source.report.address, figures)


def _from_left(ticket: Ticket, worker: Worker, missing: int, terms: TransferTerms) -> Prefill | None:
    """Returns the worker that gave a request up, if its blocks come sooner than they are computed. A worker that cannot
    use them finds out when it asks."""
    report, left = worker.report, ticket.left
    if left is None or left.worker_id == worker.worker_id or not report.block_layout:
        return None
    coming, computing = _transfer_seconds(worker, missing, terms), missing / worker.prefill_rate
    if missing < terms.min_token_count or coming >= computing:
        return None
    return Prefill(left.worker_id, left.address, f"{coming:.3f} s from {left.worker_id}, which it left", held_only=True)


def _from_holder(ticket: Ticket, worker: Worker, fleet: Fleet, terms: TransferTerms, now: float) -> Prefill | None:
    """Returns the worker that holds the longest prefix, if its blocks come sooner than they are computed."""
    own, excluded = worker.held(ticket).count, ticket.excluded
    counts = {name: held.in_memory for name, held in ticket.held.items() if name not in excluded}
    holders = [fleet.workers[name] for name, count in counts.items() if count > own and name in fleet.workers]
    usable = [holder for holder in holders if _can_give(holder, worker, fleet, now)]
    if not usable:
        return None
    holder = max(usable, key=lambda each: (counts[each.worker_id], -each.load, each.worker_id))
    token_count = (counts[holder.worker_id] - own) * worker.report.block_size
    coming, computing = _transfer_seconds(worker, token_count, terms), token_count / worker.prefill_rate
    if token_count < terms.min_token_count or coming + FETCH_SECONDS >= computing:
        return None
    remark = f"{coming:.3f} s for {token_count} tokens that {holder.worker_id} holds, {computing:.3f} s here"
    return Prefill(holder.worker_id, holder.report.address, remark, held_only=True)


def _can_give(source: Worker, worker: Worker, fleet: Fleet, now: float) -> bool:
    """Whether blocks that a worker has can be used by another, and it would answer."""
    is_same = bool(source.report.block_layout) and source.report.block_layout == worker.report.block_layout
    return is_same and not source.suspect and fleet.hears(source, now) and not source.is_stalled(now)


def _sources(ticket: Ticket, worker: Worker, fleet: Fleet, now: float) -> Iterator[Worker]:
    """Yields prefill workers whose blocks `worker` can use."""
    for source in fleet.least_loaded(ticket.adapter, CANDIDATE_COUNT):
        is_fit = source.report.is_prefill and source.takes_any and source.worker_id not in ticket.excluded
        if is_fit and _can_give(source, worker, fleet, now):
            yield source


def _cost_here(worker: Worker, missing: int) -> _Cost:
    computing = missing / worker.prefill_rate
    first_token = worker.pressure + computing
    return _Cost(first_token, first_token + worker.report.running_count * computing)


def _seconds_there(ticket: Ticket, source: Worker, worker: Worker, missing: int, terms: TransferTerms) -> float:
    """Predicts the seconds until the blocks are at `worker`."""
    computing = source.pressure + source.missing_token_count(ticket) / _prefill_rate(source, worker)
    return computing + _transfer_seconds(worker, missing, terms)


def _transfer_seconds(worker: Worker, missing: int, terms: TransferTerms) -> float:
    """Predicts the seconds in which the blocks of so many tokens come to `worker`."""
    report = worker.report
    byte_count = missing / max(1, report.block_size) * report.block_bytes
    return byte_count / (report.transfer_rate or terms.assumed_rate)


def _prefill_rate(source: Worker, worker: Worker) -> float:
    """Returns the prompt tokens per second of a source. A new one has only measured a prompt of one token, and would
    never be chosen to measure another: it is taken to be no slower than `worker`, which runs the same model."""
    measured = source.prefill_rate
    return max(measured, worker.prefill_rate) if source.report.computed_token_count < KNOWN_TOKEN_COUNT else measured
