"""More traffic than four unlike workers can serve, in virtual time: who is served in time, and who comes back when.

    python -m tests.benchmarks.overload TRACE RATE [SECONDS]

Requests of a trace come RATE times as fast. Each is of the class interactive, which wants its first token within 2 s,
asks for 2,048 tokens at most, and has a deadline after 60 s, or after 10 s for the other half of the table. A client
that is refused comes back after the seconds that it was told, three times at most, or never.
"""

import gc
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.unlike_workers import add_unlike_workers

from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import FIRST_TOKEN_SECONDS, Urgency
from headrace.scheduler.simulation.outcome import Ending, Outcome
from headrace.scheduler.simulation.policy_text import policy_of
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform
from headrace.scheduler.simulation.trace_file import read_trace
from headrace.scheduler.simulation.traffic import Traffic

MOST_TOKENS = 2048
RETRIES = 3
WANTED_SECONDS = FIRST_TOKEN_SECONDS[Urgency.INTERACTIVE]
POLICIES = (
    "refused_past_deadline_classes=",
    "default",
    "refused_late_classes=interactive",
)


@dataclass(frozen=True, slots=True)
class Served:
    """Course of all requests under one policy."""

    platform: SimulatedPlatform
    attempts: dict[str, list[Outcome]]
    """Outcomes of each request, in the order of its attempts."""

    def in_time_share(self) -> float:
        """Returns the share of requests that finished, with a first token within the time wanted from the last ask."""
        ends = [outcomes[-1] for outcomes in self.attempts.values()]
        good = sum(one.finished_at is not None and one.ttft <= WANTED_SECONDS for one in ends)
        return good / len(ends)

    def finished_share(self) -> float:
        """Returns the share of requests that finished."""
        return sum(outcomes[-1].finished_at is not None for outcomes in self.attempts.values()) / len(self.attempts)

    def admitted_share(self) -> float | None:
        """Returns the share of retries that were not refused again. None: there were none."""
        retries = [outcome for outcomes in self.attempts.values() for outcome in outcomes[1:]]
        return sum(one.ending is not Ending.REFUSED for one in retries) / len(retries) if retries else None


def play(traffic: Traffic, rate: float, policy: Policy, deadline_seconds: float, retries: int) -> Served:
    """Plays traffic to its end."""
    platform = SimulatedPlatform(policy)
    served = Served(platform, {})
    counts: dict[str, int] = {}
    add_unlike_workers(platform)

    def ask(ticket: Ticket) -> None:
        platform.submit(ticket.arrival, ticket, output_token_count=counts[ticket.request_id])

    def come_back(outcome: Outcome) -> None:
        old = outcome.ticket
        if old.attempt <= retries:
            time = platform.now + outcome.retry_after
            ask(replace(old, attempt=old.attempt + 1, arrival=time, deadline=time + deadline_seconds))

    platform.on_reject = come_back
    for number, arrival in enumerate(traffic.at_rate(rate)):
        name, time = f"{number:07d}", arrival.time
        counts[name] = min(MOST_TOKENS, arrival.output_token_count)
        prompt, deadline = arrival.prompt_token_count, time + deadline_seconds
        ask(Ticket(name, 1, MODEL, "", time, deadline, prompt, MOST_TOKENS, Urgency.INTERACTIVE))
    platform.run_to_end()
    for outcome in platform.outcomes.values():
        served.attempts.setdefault(outcome.ticket.request_id, []).append(outcome)
    return served


def row(served: Served) -> str:
    """Formats the figures of one run."""
    outcomes = list(served.platform.outcomes.values())
    refused = sum(outcome.ending is Ending.REFUSED for outcome in outcomes)
    expired = sum(outcome.ending in (Ending.TIMEOUT, Ending.QUEUE_TIMEOUT) for outcome in outcomes)
    admitted = served.admitted_share()
    back = "-" if admitted is None else f"{admitted:.1%}"
    return f"{served.in_time_share():.1%} | {served.finished_share():.1%} | {refused:,} | {expired:,} | {back}"


def main() -> None:
    path, rate = Path(sys.argv[1]), float(sys.argv[2])
    traffic = read_trace(path).part(float(sys.argv[3]) if len(sys.argv) > 3 else None, None)
    print(f"{path.name}, {len(traffic.arrivals)} requests, {rate:g} times as many per second\n")
    print("| deadline, s | retries | policy | in time | finished | refusals | expired | retries taken |")
    print("|---|---|---|---|---|---|---|---|")
    for deadline in (60.0, 10.0):
        for retries in (0, RETRIES):
            for text in sys.argv[4:] or POLICIES:
                served = play(traffic, rate, policy_of(text), deadline, retries)
                print(f"| {deadline:g} | {retries} | `{text}` | {row(served)} |", flush=True)


if __name__ == "__main__":
    gc.disable()
    main()
