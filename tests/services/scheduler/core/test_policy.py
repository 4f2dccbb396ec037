"""Promises of the policy, with sim engines in virtual time."""

import itertools
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from headrace.engine.engines.sim import SimConfig
from headrace.kv.held_prefix import HeldPrefix
from headrace.load_generator.percentile import percentile
from headrace.scheduler.core.decisions import Reason
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.simulation.outcome import Ending, Outcome
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform

GPU = SimConfig(base_seconds=0.010, prefill_seconds_per_token=0.0001, decode_seconds_per_sequence=0.0001)
_numbers = itertools.count()


def ticket(
    time: float,
    tenant: str = "t",
    urgency: Urgency = Urgency.DEFAULT,
    prompt: int = 64,
    output: int = 64,
    seconds: float = 10_000.0,
    **fields: Any,
) -> Ticket:
    name = f"r{next(_numbers)}"
    return Ticket(name, 1, MODEL, tenant, time, time + seconds, prompt, output, urgency, **fields)


def realtime_ttfts(flood: int, *, measures_pace: bool) -> list[float]:
    """Times to first token of realtime requests, beside batch requests that came almost all at once. Not counted are
    those of the first seconds, in which batch work that was there before the first of them comes to its end."""
    platform = SimulatedPlatform(Policy(max_waiting_count=100_000), measures_pace=measures_pace)
    for name in ("w0", "w1"):
        platform.add_worker(name, GPU)
    chance = random.Random(1)
    for _ in range(flood):
        time = chance.uniform(0, 3)
        platform.submit(time, ticket(time, "bulk", Urgency.BATCH, prompt=chance.randint(16, 512), output=128))
    urgent = [ticket(1 + 0.25 * number, "voice", Urgency.REALTIME, output=8) for number in range(60)]
    for one in urgent:
        platform.submit(one.arrival, one)
    platform.run(17)
    ended = [outcome for outcome in platform.outcomes.values() if outcome.finished_at is not None]
    assert not flood or sum(outcome.ticket.urgency is Urgency.BATCH for outcome in ended) > 100, "batch work goes on"
    return [platform.outcomes[one.key].ttft for one in urgent if one.arrival > 8]


@pytest.mark.slow
@pytest.mark.parametrize("measures_pace", [False, True])
def test_realtime_requests_hardly_notice_a_flood_of_batch_work(measures_pace: bool) -> None:
    idle, flooded = realtime_ttfts(0, measures_pace=measures_pace), realtime_ttfts(600, measures_pace=measures_pace)
    assert (percentile(flooded, 95) or 0.0) <= 1.5 * (percentile(idle, 95) or 0.0)


@pytest.mark.slow
def test_tenants_get_equal_shares_whatever_one_of_them_sends() -> None:
    platform = SimulatedPlatform(Policy(max_waiting_count=100_000))
    platform.add_worker("w0", GPU)
    chance = random.Random(2)
    for tenant in range(10):
        count = 10_000 if tenant == 0 else 200
        for _ in range(count):
            time = chance.uniform(0, 5)
            prompt, output = chance.randint(16, 128), chance.randint(4, 32)
            platform.submit(time, ticket(time, f"t{tenant}", prompt=prompt, output=output))
    platform.run(5)
    served = dict.fromkeys((f"t{tenant}" for tenant in range(10)), 0)
    for outcome in platform.outcomes.values():
        if outcome.placed_at is not None and outcome.placed_at > 0.5:
            served[outcome.ticket.tenant] += outcome.ticket.prompt_token_count + outcome.token_count
    shares = list(served.values())
    assert sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares)) >= 0.95


def test_who_is_sent_away_is_told_when_there_will_be_room() -> None:
    """A thousand at once into a small queue. Each rejected one comes back after its Retry-After."""
    platform = SimulatedPlatform(Policy(max_waiting_count=64))
    platform.add_worker("w0", GPU)
    told: list[float] = []
    turns: dict[str, int] = {}

    def come_back(outcome: Outcome) -> None:
        if outcome.ticket.arrival == 1.0:
            told.append(outcome.retry_after)
        time = platform.now + outcome.retry_after
        turns[outcome.ticket.request_id] = turns.get(outcome.ticket.request_id, 0) + 1
        platform.submit(time, ticket(time, output=outcome.ticket.max_token_count))

    platform.on_reject = come_back
    for _ in range(1000):
        platform.submit(1.0, ticket(1.0, output=16))
    platform.run(200)
    assert all(outcome.finished_at or outcome.rejection is Reason.QUEUE_FULL for outcome in platform.outcomes.values())
    assert sum(outcome.finished_at is not None for outcome in platform.outcomes.values()) == 1000
    # Each place in the queue that became free was for the next of those who were sent away.
    freed = [time - 1.0 for time in platform.placements[64:]]
    errors = [abs(one - real) / real for one, real in zip(told, freed, strict=False) if real > 0]
    assert statistics.median(errors) <= 0.3


def test_a_prefix_never_loads_its_holder_beyond_the_bound() -> None:
    platform = SimulatedPlatform()
    for number in range(4):
        platform.add_worker(f"w{number}", GPU)
    held = {"w0": HeldPrefix(3)}
    for number in range(100):
        time = 0.02 * number
        platform.submit(time, ticket(time, output=200, held=held))
    platform.run(2.5)
    loads = [worker.report().open_count for worker in platform.workers.values()]
    assert max(loads) <= 1.25 * (sum(loads) / len(loads) + 1) + 1
    counts = [sum(outcome.worker == name for outcome in platform.outcomes.values()) for name in platform.workers]
    assert counts[0] == max(counts), "the prefix counts for something"


def test_batch_work_is_not_starved_by_a_stream_of_more_urgent_work() -> None:
    platform = SimulatedPlatform(Policy(starvation_seconds=5.0, max_waiting_count=100_000))
    platform.add_worker("w0", SimConfig(base_seconds=0.01, max_running_count=4))
    for number in range(2000):
        time = 0.01 * number
        platform.submit(time, ticket(time, "busy", Urgency.INTERACTIVE, output=20))
    bulk = ticket(1.0, "bulk", Urgency.BATCH)
    platform.submit(1.0, bulk)
    platform.run(20)
    placed = platform.outcomes[bulk.key].placed_at
    assert placed is not None
    assert placed - bulk.arrival < 7.0


@pytest.mark.parametrize(("wanted", "kind"), [(None, "cheap"), (0.05, "fast")])
def test_the_cheapest_kind_that_meets_the_time_is_chosen(wanted: float | None, kind: str) -> None:
    platform = SimulatedPlatform()
    platform.add_worker("fast", SimConfig(base_seconds=0.005, prefill_seconds_per_token=0.00002), price=40.0)
    platform.add_worker("cheap", SimConfig(base_seconds=0.02, prefill_seconds_per_token=0.0005), price=0.7)
    asked = ticket(1.0, prompt=1000, output=10, first_token_seconds=wanted)
    platform.submit(1.0, asked)
    platform.run(5)
    assert platform.outcomes[asked.key].worker == kind


def test_what_cannot_begin_before_its_deadline_is_dropped_before_prefill() -> None:
    platform = SimulatedPlatform()
    platform.add_worker("w0", SimConfig(base_seconds=0.05, max_running_count=1))
    first, second = ticket(0.0, output=200), ticket(0.1, output=5, seconds=1.0)
    platform.submit(0.0, first)
    platform.submit(0.1, second)
    platform.run(20)
    assert platform.outcomes[second.key].ending is Ending.QUEUE_TIMEOUT
    assert platform.outcomes[second.key].placed_at is None


def crowd() -> tuple[list[float], list[float]]:
    """Lets 500 requests of many lengths come at once into a small queue, after two minutes of usual traffic. Each one
    refused comes back after its Retry-After. Returns what those were, and when places in the queue became free."""
    platform, chance = SimulatedPlatform(Policy(max_waiting_count=64)), random.Random(1)
    for name, factor in (("fast", 1.0), ("slow", 4.0)):
        config = SimConfig(
            max_model_length=131_072,
            max_running_count=16,
            base_seconds=factor * 0.008,
            prefill_seconds_per_token=factor * 2.5e-5,
            decode_seconds_per_sequence=factor * 1e-4,
        )
        platform.add_worker(name, config)
    told: list[float] = []
    outputs: dict[str, int] = {}

    def ask(time: float, prompt: int, output: int) -> None:
        one = ticket(time, prompt=prompt, output=2048)
        outputs[one.request_id] = output
        platform.submit(time, one, output_token_count=output)

    def come_back(outcome: Outcome) -> None:
        if outcome.ticket.arrival == 125.0:
            told.append(outcome.retry_after)
        ask(platform.now + outcome.retry_after, outcome.ticket.prompt_token_count, outputs[outcome.ticket.request_id])

    platform.on_reject = come_back
    times = [chance.uniform(0, 120) for _ in range(360)] + [125.0] * 500
    for time in times:
        ask(time, 1 + int(chance.lognormvariate(6.5, 0.9)), 1 + int(chance.expovariate(1 / 200)))
    platform.run_to_end()
    return told, [time - 125.0 for time in platform.placements if time > 125.0 + 1e-9]


@pytest.mark.slow
def test_retries_of_requests_of_any_length_find_room_when_they_were_told() -> None:
    """Output lengths are unknown: requests ask for ten times what they use."""
    told, freed = crowd()
    assert len(told) > 300
    errors = [abs(one - real) / real for one, real in zip(told, freed, strict=False) if real > 0.5]
    assert statistics.median(errors) <= 0.25
    assert (percentile(errors, 90) or 0.0) <= 0.5


def overload(terms: RefusalTerms, retries: int, deadline_seconds: float = 30.0) -> list[Outcome]:
    """Last outcomes of requests that come twice as fast as a worker serves them, for a minute. Clients that are refused
    come back when they were told."""
    platform, chance = SimulatedPlatform(Policy(refusal=terms)), random.Random(3)
    platform.add_worker("w0", replace(GPU, max_running_count=16))
    outputs: dict[str, int] = {}
    attempts: dict[str, int] = {}

    def come_back(outcome: Outcome) -> None:
        old = outcome.ticket
        attempts[old.request_id] = attempts.get(old.request_id, 0) + 1
        if attempts[old.request_id] <= retries:
            time = platform.now + outcome.retry_after
            again = replace(old, attempt=old.attempt + 1, arrival=time, deadline=time + deadline_seconds)
            platform.submit(time, again, output_token_count=outputs[old.request_id])

    platform.on_reject = come_back
    for number in range(1200):
        time = 60.0 * number / 1200
        one = ticket(time, urgency=Urgency.INTERACTIVE, prompt=300, output=1024, seconds=deadline_seconds)
        outputs[one.request_id] = 1 + int(chance.expovariate(1 / 60))
        platform.submit(time, one, output_token_count=outputs[one.request_id])
    platform.run_to_end()
    return list({outcome.ticket.request_id: outcome for outcome in platform.outcomes.values()}.values())


def in_time_share(outcomes: list[Outcome]) -> float:
    """Share of requests that finished, with a first token within the two seconds of their class."""
    return sum(one.finished_at is not None and one.ttft <= 2.0 for one in outcomes) / len(outcomes)


@pytest.mark.slow
def test_early_refusals_keep_what_is_served_in_time() -> None:
    never = overload(RefusalTerms(past_deadline=frozenset()), retries=0)
    late = overload(RefusalTerms(late=frozenset({Urgency.INTERACTIVE})), retries=0)
    assert in_time_share(late) > in_time_share(never) + 0.3
    refused = [outcome for outcome in late if outcome.ending is Ending.REFUSED]
    assert {outcome.rejection for outcome in refused} == {Reason.LATE}
    assert len(refused) + sum(outcome.finished_at is not None for outcome in late) > 0.98 * len(late)
    back = overload(RefusalTerms(late=frozenset({Urgency.INTERACTIVE})), retries=10)
    assert in_time_share(back) > 0.9, "retries are in time when they come as they were told"


@pytest.mark.slow
def test_what_would_not_end_before_its_deadline_is_refused_before_it_waits_for_it() -> None:
    both = (RefusalTerms(past_deadline=frozenset()), RefusalTerms())
    never, early = (overload(terms, retries=0, deadline_seconds=8.0) for terms in both)
    before, after = ([one.finished_at is not None for one in found] for found in (never, early))
    assert sum(one.ending is Ending.REFUSED for one in early) > 20
    assert sum(after) > sum(before), "their places went to others that ended in time"
    assert all(one.retry_after >= 0.5 for one in early if one.ending is Ending.REFUSED)


def test_batch_requests_wait_until_their_deadline() -> None:
    platform = SimulatedPlatform()
    platform.add_worker("w0", SimConfig(base_seconds=0.05, max_running_count=1))
    tickets = [ticket(0.1 * number, urgency=Urgency.BATCH, output=200, seconds=25.0) for number in range(4)]
    for one in tickets:
        platform.submit(one.arrival, one)
    platform.run_to_end()
    endings = [platform.outcomes[one.key].ending for one in tickets]
    assert endings == [Ending.FINISHED, Ending.FINISHED, Ending.TIMEOUT, Ending.TIMEOUT]
