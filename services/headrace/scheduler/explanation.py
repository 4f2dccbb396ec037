"""The journal in words."""

from headrace.identity.ids import belongs_to
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.decisions import Decision
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.journal import Entry
from headrace.v1.scheduler_pb2 import CandidateView, JournalEntry


def told(entry: Entry, request_id: str, now: float) -> list[JournalEntry]:
    """Returns what an entry says about a request; `now` in seconds of the scheduler's clock."""
    age = now - entry.time
    lines = [JournalEntry(age_seconds=age, text=text)] if (text := _event(entry.event, request_id)) else []
    for decision in entry.decisions:
        lines += [_decision(line, age) for line in _about(decision, request_id)]
    return lines


def _event(event: Event, request_id: str) -> str:
    match event:
        case events.Submitted(ticket) if belongs_to(ticket.request_id, request_id):
            wanted = f"{ticket.prompt_token_count} tokens in, at most {ticket.max_token_count} out"
            held = f"; prefix held by {dict(ticket.held)}" if ticket.held else ""
            return f"{ticket.key} submitted: {ticket.rank.name.lower()}, tenant {ticket.tenant!r}, {wanted}{held}"
        case events.Cancelled(_, key) if belongs_to(key, request_id):
            return f"{key} withdrawn"
        case events.Accepted(ticket, worker_id) if belongs_to(ticket.request_id, request_id):
            return f"{ticket.key} accepted by {worker_id}"
        case events.Refused(ticket, worker_id) if belongs_to(ticket.request_id, request_id):
            return f"{ticket.key} refused by {worker_id} for want of room; waits again"
        case events.Failed(ticket, worker_id) if belongs_to(ticket.request_id, request_id):
            return f"{ticket.key} not taken by {worker_id}"
        case events.Settled(_, name, count) if belongs_to(name, request_id):
            return f"{name} ended after {count} tokens"
    return ""


def _about(decision: Decision, request_id: str) -> list[tuple[str, tuple[Candidate, ...]]]:
    match decision:
        case decisions.Dispatch():
            return [
                (f"{ticket.key} sent to {decision.worker_id}", candidates)
                for ticket, candidates in zip(decision.tickets, decision.candidates, strict=True)
                if belongs_to(ticket.request_id, request_id)
            ]
        case decisions.Reject(ticket, reason, retry_after) if belongs_to(ticket.request_id, request_id):
            return [(f"{ticket.key} rejected: {reason.value}, room expected in {retry_after:.1f} s", ())]
        case decisions.Expire(ticket) if belongs_to(ticket.request_id, request_id):
            return [(f"{ticket.key} expired in the queue", ())]
    return []


def _decision(line: tuple[str, tuple[Candidate, ...]], age: float) -> JournalEntry:
    text, candidates = line
    views = [
        CandidateView(
            worker_id=candidate.worker_id,
            load=candidate.load,
            held_block_count=candidate.held_block_count,
            first_token_seconds=candidate.first_token_seconds,
            price=candidate.price,
            remark=candidate.remark,
        )
        for candidate in candidates
    ]
    return JournalEntry(age_seconds=age, text=text, candidates=views)
