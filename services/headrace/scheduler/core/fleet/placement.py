"""Chooses the worker that gets a ticket: filter, score, pick from a few."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.fleet.first_token import first_token_seconds
from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.worker import Worker
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

CANDIDATE_COUNT = 4
"""Number of least loaded workers per price, and of holders of the longest prefixes, that are considered for each
ticket."""
AFFINITY_LOAD = 1.25
"""A worker is not chosen for the prefix that it holds when it would then have more than this many times the mean
load (consistent hashing with bounded loads: Mirrokni et al., 2018)."""
SECONDS_PER_HOUR = 3600.0
CLOSE_SHARE = 0.1
CLOSE_SECONDS = 0.01
"""Predicted times to first tokens that differ by less than that share, or by less than those seconds, say nothing about
which worker is sooner: fits of equal workers differ by as much. So do prices that differ by less than the share."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Worker chosen for a ticket, and the others that were considered."""

    worker: Worker
    candidates: tuple[Candidate, ...]
    """Candidates, the chosen one first."""


def choose(
    ticket: Ticket, output_tokens: float, fleet: Fleet, token_limit: int, spares: bool, now: float
) -> Choice | None:
    """Picks the cheapest worker that meets the time when the first token is due; of equal ones, or if none meets it,
    the one that gives the first token soonest; of those about as soon, the least loaded. None where no worker has room.

    `output_tokens`: predicted length of the output. `token_limit`: maximum number of prompt tokens that may wait on one
    worker. `spares`: see `Worker.has_room`.
    """
    scored: list[tuple[Worker, Candidate]] = []
    for worker in _candidates(ticket, fleet):
        remark = _objection(worker, ticket, fleet, token_limit, spares, now)
        scored.append((worker, _score(worker, ticket, output_tokens, remark, now)))
    allowed = [pair for pair in scored if not pair[1].remark]
    # A worker that lost this request before is still better than none.
    allowed = [pair for pair in allowed if pair[0].worker_id not in ticket.excluded] or allowed
    if not allowed:
        return None
    chosen = _pick(_within_bound(allowed, fleet), ticket.due - now)
    others = [candidate for worker, candidate in scored if worker is not chosen]
    first = next(candidate for worker, candidate in allowed if worker is chosen)
    return Choice(chosen, (first, *others))


def _candidates(ticket: Ticket, fleet: Fleet) -> list[Worker]:
    if ticket.allowed is not None:
        known = (fleet.workers.get(worker_id) for worker_id in sorted(ticket.allowed))
        return [worker for worker in known if worker is not None and worker.has_adapter(ticket.adapter)]
    found = {worker.worker_id: worker for worker in fleet.least_loaded(ticket.adapter, CANDIDATE_COUNT)}
    if ticket.excluded and found.keys() <= ticket.excluded:
        more = CANDIDATE_COUNT + len(ticket.excluded)
        found = {worker.worker_id: worker for worker in fleet.least_loaded(ticket.adapter, more)}
    if not found:
        return []  # Any worker with room is among the least loaded.
    holders = sorted(ticket.held, key=lambda worker_id: -ticket.held[worker_id].count)[:CANDIDATE_COUNT]
    for worker_id in holders:
        if (worker := fleet.workers.get(worker_id)) is not None and worker.has_adapter(ticket.adapter):
            found.setdefault(worker_id, worker)
    return list(found.values())


def _objection(worker: Worker, ticket: Ticket, fleet: Fleet, token_limit: int, spares: bool, now: float) -> str:
    """Returns why a worker cannot take a ticket. Empty: it can."""
    if not fleet.hears(worker, now):
        return "silent"
    if worker.is_stalled(now):
        return "makes no progress"
    if worker.report.is_prefill and fleet.has_decoder(ticket.adapter, now):
        return "computes prompts for others"
    if spares and ticket.rank is Urgency.BATCH and worker.worker_id == fleet.reserved:
        return "kept for realtime"
    return "" if worker.has_room(ticket, token_limit, spares) else "full"


def _score(worker: Worker, ticket: Ticket, output_tokens: float, remark: str, now: float) -> Candidate:
    report = worker.report
    missing = worker.missing_token_count(ticket)
    prefill_seconds = missing / worker.prefill_rate
    busy_seconds = prefill_seconds + output_tokens * worker.step_seconds
    return Candidate(
        worker_id=worker.worker_id,
        load=worker.load,
        held=worker.held(ticket),
        first_token_seconds=worker.reading_seconds(ticket) + first_token_seconds(worker, missing, now),
        price=report.hourly_price * busy_seconds / SECONDS_PER_HOUR,
        remark=remark,
    )


def _within_bound(allowed: Sequence[tuple[Worker, Candidate]], fleet: Fleet) -> list[tuple[Worker, Candidate]]:
    """Ignores a prefix whose use would load its holder beyond the bound."""
    limit = AFFINITY_LOAD * (fleet.mean_load + 1)
    least = min(candidate.load for _, candidate in allowed)
    return [
        (worker, candidate)
        if not candidate.held.count or candidate.load + 1 <= limit or candidate.load == least
        else (worker, replace(candidate, first_token_seconds=float("inf")))
        for worker, candidate in allowed
    ]


def _pick(allowed: Sequence[tuple[Worker, Candidate]], slack_seconds: float) -> Worker:
    """Returns the least loaded of the workers about which predictions say the same as about the best."""

    def rank(candidate: Candidate) -> tuple[bool, float, float]:
        late = candidate.first_token_seconds > slack_seconds
        return (late, 0.0 if late else candidate.price, candidate.first_token_seconds)

    ranked = [(rank(candidate), worker, candidate) for worker, candidate in allowed]
    late, price, seconds = min(ranks for ranks, _, _ in ranked)
    highest_price = price * (1 + CLOSE_SHARE)
    longest = max(seconds * (1 + CLOSE_SHARE), seconds + CLOSE_SECONDS)
    close = [
        (candidate.load, candidate.first_token_seconds, worker.worker_id, worker)
        for ranks, worker, candidate in ranked
        if ranks[0] == late and ranks[1] <= highest_price and ranks[2] <= longest
    ]
    return min(close)[-1]
