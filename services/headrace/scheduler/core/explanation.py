"""Tells in words what the journal knows about a request."""

from dataclasses import dataclass

from headrace.domain.ids import belongs_to
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.decisions import Decision
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.fleet.prefill import Prefill
from headrace.scheduler.core.journal import JournalEntry
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened to a request, or was decided about it."""

    age_seconds: float
    text: str
    candidates: tuple[Candidate, ...] = ()
    """Workers considered for the request, with the figures that decided; the chosen one first."""


def told(entry: JournalEntry, request_id: str, now: float) -> list[Line]:
    """Tells what an entry says about a request; `now` in seconds of the scheduler's clock."""
    age = now - entry.time
    lines = [Line(age, text)] if (text := _event(entry.event, request_id)) else []
    for decision in entry.decisions:
        lines += [Line(age, text, candidates) for text, candidates in _about(decision, request_id)]
    return lines


def _event(event: Event, request_id: str) -> str:
    match event:
        case events.Submitted(ticket) if belongs_to(ticket.request_id, request_id):
            wanted = f"{ticket.prompt_token_count} tokens in, at most {ticket.max_token_count} out{_held_told(ticket)}"
            return f"{ticket.key} submitted: {ticket.rank.name.lower()}, tenant {ticket.tenant!r}, {wanted}"
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


def _held_told(ticket: Ticket) -> str:
    """Tells how many leading KV blocks of a prompt each worker had in memory, and behind those on its disk."""
    if not ticket.held:
        return ""
    kept = {name: held.on_disk for name, held in ticket.held.items() if held.on_disk}
    memory = {name: held.in_memory for name, held in ticket.held.items() if held.in_memory}
    return f"; prefix held by {memory}" * bool(memory) + f"; on disks of {kept}" * bool(kept)


def _about(decision: Decision, request_id: str) -> list[tuple[str, tuple[Candidate, ...]]]:
    match decision:
        case decisions.Dispatch():
            return [
                (f"{one.ticket.key} sent to {decision.worker_id}{_prompt_told(one.prefill)}", one.candidates)
                for one in decision.members
                if belongs_to(one.ticket.request_id, request_id)
            ]
        case decisions.Reject(ticket, reason, retry_after) if belongs_to(ticket.request_id, request_id):
            return [(f"{ticket.key} rejected: {reason.value}, room expected in {retry_after:.1f} s", ())]
        case decisions.Compare(_, name, first_token) if belongs_to(name, request_id):
            predicted = f"{first_token.predicted_seconds:.3f} s were predicted"
            return [(f"{name} had its first token {first_token.seconds:.3f} s after its dispatch; {predicted}", ())]
        case decisions.Expire(ticket) if belongs_to(ticket.request_id, request_id):
            return [(f"{ticket.key} expired in the queue", ())]
    return []


def _prompt_told(prefill: Prefill) -> str:
    """Tells who computes a prompt, where the model has workers for that, or gives blocks of it."""
    if not prefill.remark:
        return ""
    if prefill.held_only:
        return f"; {prefill.worker_id} gives KV blocks: {prefill.remark}"
    return f"; {prefill.worker_id or 'it'} computes the prompt: {prefill.remark}"
