"""The simulation agrees with what is known without it: queueing theory, the step model, the engine's batcher."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.benchmarks.predicted_first_tokens import play

from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.prefixes import MAX_BLOCKS
from headrace.scheduler.simulation.clock import VirtualClock
from headrace.scheduler.simulation.outcome import Ending
from headrace.scheduler.simulation.simulated_platform import (
    MAX_HELD_BLOCKS,
    MODEL,
    TICK_SECONDS,
    SimulatedPlatform,
)
from headrace.scheduler.simulation.traffic import Arrival, Traffic
from headrace.scheduler.simulation.worker import SimulatedWorker


def ticket(number: int, time: float, prompt: int, output: int, seconds: float = 1e6) -> Ticket:
    return Ticket(f"r{number}", 1, MODEL, "t", time, time + seconds, prompt, output)


def _noted(time: float, deltas: Sequence[Delta]) -> list[tuple[float, str, int]]:
    return [(time, delta.request_id, delta.first_index) for delta in deltas]


def md1_wait(load: float, count: int) -> float:
    """Mean wait, in units of the service time, of requests that come at random to one server that takes 10 ms for
    each."""
    platform = SimulatedPlatform(Policy(max_waiting_count=10**6, starvation_seconds=1e9))
    config = SimConfig(prefill_seconds_per_token=0.0001, max_running_count=1, prefix_cache=False)
    platform.add_worker("w", config)
    chance, time = random.Random(7), 0.0
    for number in range(count):
        time += chance.expovariate(load / 0.01)
        platform.submit(time, ticket(number, time, prompt=100, output=1))
    platform.run_to_end()
    waits = [outcome.ttft / 0.01 - 1.0 for outcome in platform.outcomes.values()]
    return sum(waits) / len(waits)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_the_wait_for_a_single_server_is_that_of_an_md1_queue(load: float) -> None:
    """Pollaczek (1930) and Khinchin (1932): the mean wait is load / (2 (1 - load)) times the service time."""
    assert md1_wait(load, 5_000) == pytest.approx(load / (2 * (1 - load)), rel=0.1)


def test_a_saturated_worker_makes_as_many_tokens_as_its_step_model_says() -> None:
    config = SimConfig(base_seconds=0.01, decode_seconds_per_sequence=0.0005, max_running_count=32, prefix_cache=False)
    platform = SimulatedPlatform()
    platform.add_worker("w", config)
    for number in range(64):
        platform.submit(0.0, ticket(number, 0.0, prompt=1, output=400))
    platform.run_to_end()
    seconds = max(outcome.ended_at for outcome in platform.outcomes.values())
    assert 64 * 400 / seconds == pytest.approx(32 / (0.01 + 32 * 0.0005), rel=0.01)
    assert platform.workers["w"].busy_seconds == pytest.approx(seconds, rel=0.01)


def bursts(count: int) -> Traffic:
    """Random requests, ten of which come quickly after each other, and ten slowly."""
    chance, time, arrivals = random.Random(11), 0.0, []
    for number in range(count):
        time += chance.expovariate(30.0 if number % 20 < 10 else 5.0)
        prompt = min(12_000, int(chance.lognormvariate(6.5, 1.0)) + 1)
        arrivals.append(Arrival(time, prompt, 1 + int(chance.expovariate(1 / 180))))
    return Traffic.of(arrivals)


@pytest.mark.slow
def test_first_tokens_are_predicted_on_a_mixed_pool() -> None:
    """Much better than by workers that tell what a usual step takes, and not what it takes by its work."""
    traffic = bursts(800)
    fitted, usual = (
        [first_token.error for first_token in play(traffic, 1.0, measures_pace=measures_pace).first_tokens]
        for measures_pace in (True, False)
    )
    assert len(fitted) == len(usual) == 800
    assert sum(fitted) / 800 < 0.1
    assert sum(usual) > 3 * sum(fitted)


@pytest.mark.parametrize("seed", range(3))
def test_every_request_ends_exactly_once(seed: int) -> None:
    """More traffic than fits: all endings occur, and the tokens of each fit its ending."""
    chance = random.Random(seed)
    platform = SimulatedPlatform(Policy(max_waiting_count=60))
    for name in ("w0", "w1"):
        platform.add_worker(name, SimConfig(base_seconds=0.02, max_running_count=4, block_count=80))
    tickets = []
    for number in range(300):
        time, seconds = chance.uniform(0, 4), chance.choice([0.4, 1.5, 60.0])
        urgency = chance.choice([Urgency.REALTIME, Urgency.DEFAULT, Urgency.BATCH])
        one = ticket(number, time, chance.choice([20, 300, 2000]), chance.randint(1, 100), seconds)
        tickets.append(replace(one, urgency=urgency))
        platform.submit(time, tickets[-1])
    platform.run_to_end()
    outcomes = [platform.outcomes[one.key] for one in tickets]
    assert {outcome.ending for outcome in outcomes} == set(Ending)
    for outcome in outcomes:
        if outcome.ending is Ending.FINISHED:
            assert outcome.token_count == outcome.ticket.max_token_count
        elif outcome.ending is not Ending.TIMEOUT:
            assert outcome.token_count == 0
        assert outcome.asked_at <= outcome.ended_at <= outcome.ticket.deadline + TICK_SECONDS
    platform.run(platform.now + 1)
    assert [worker.report().open_count for worker in platform.workers.values()] == [0, 0]
    assert [worker.report().used_block_count for worker in platform.workers.values()] == [0, 0]


def test_steps_are_those_of_the_engine() -> None:
    """A worker whose requests all come at once gives each token when an engine with the same batcher does."""
    config = SimConfig(
        base_seconds=0.01,
        prefill_seconds_per_token=0.001,
        decode_seconds_per_sequence=0.002,
        max_step_token_count=64,
        block_count=12,
        max_running_count=8,
        prefix_cache=False,
    )
    chance = random.Random(3)
    lengths = [(chance.randint(1, 100), chance.randint(1, 40)) for _ in range(8)]
    requests = [
        EngineRequest(f"r{number}", (1,) * prompt, SamplingParams(max_tokens=output, temperature=0, ignore_eos=True))
        for number, (prompt, output) in enumerate(lengths)
    ]
    clock, found = VirtualClock(), list[tuple[float, str, int]]()
    worker = SimulatedWorker("w", MODEL, config, 0.0, clock, lambda _, deltas: found.extend(_noted(clock.now, deltas)))
    worker.take(requests)
    clock.run(100.0)
    time, expected = 0.0, list[tuple[float, str, int]]()

    def pass_time(until: float) -> None:
        nonlocal time
        time = until

    engine = SimEngine(config, lambda: time, pass_time)
    for request in requests:
        engine.add(request)
    while engine.has_work():
        deltas = engine.step()
        expected += _noted(time, deltas)
    assert engine.stats().preemption_count > 0
    assert worker.stats.preemption_count == engine.stats().preemption_count
    assert [(pytest.approx(at), *rest) for at, *rest in expected] == found


def test_prompts_count_as_waiting_until_the_step_that_reads_them_has_ended() -> None:
    """Figures of a worker are from the end of its last step, and another request is placed by them."""
    clock = VirtualClock()
    config = SimConfig(base_seconds=0.01, prefill_seconds_per_token=0.001, max_step_token_count=64)
    worker = SimulatedWorker("w", MODEL, config, 0.0, clock, lambda *_: None)
    worker.take([EngineRequest("r", (1,) * 100, SamplingParams(max_tokens=2, temperature=0, ignore_eos=True))])
    seen = [worker.report().waiting_token_count]
    for time in (0.05, 0.08, 0.13):
        clock.run(time)
        seen.append(worker.report().waiting_token_count)
    assert seen == [100, 100, 36, 0]


@pytest.mark.parametrize(("max_seconds", "longest"), [(0.2, 0.21), (0.0, 0.52)])
def test_a_stream_waits_for_no_longer_step_than_is_allowed(max_seconds: float, longest: float) -> None:
    """Prompts that a worker reads slowly come once it knows the times of its steps."""
    clock, times = VirtualClock(), list[float]()
    config = SimConfig(base_seconds=0.01, prefill_seconds_per_token=0.001, max_step_seconds=max_seconds)
    worker = SimulatedWorker("w", MODEL, config, 0.0, clock, lambda _, deltas: note(deltas))

    def note(deltas: Sequence[Delta]) -> None:
        times.extend(clock.now for delta in deltas if delta.request_id == "stream")

    def ask(name: str, prompt_tokens: int, output_tokens: int) -> None:
        sampling = SamplingParams(max_tokens=output_tokens, temperature=0, ignore_eos=True)
        worker.take([EngineRequest(name, tuple(range(1, prompt_tokens + 1)), sampling)])

    for number in range(8):
        ask(f"first {number}", 30 * number + 1, 5)
    clock.run(5.0)
    ask("stream", 1, 400)
    clock.run(5.1)
    for number in range(3):
        ask(f"long {number}", 2000 + number, 1)
    clock.run(100.0)
    assert len(times) == 400
    gaps = [after - before for before, after in pairwise(times)]
    assert longest - 0.04 < max(gaps) < longest


def test_equal_beginnings_are_read_once_and_draw_to_their_worker() -> None:
    platform = SimulatedPlatform()
    for name in ("w0", "w1"):
        platform.add_worker(name, SimConfig(base_seconds=0.001, prefill_seconds_per_token=0.001, block_size=16))
    prompt = tuple(range(1, 161))
    for number in range(4):
        platform.submit(float(number), ticket(number, float(number), 160, 2), lambda: prompt)
    platform.run_to_end()
    first, *others = platform.outcomes.values()
    assert first.cached_token_count == 0
    assert {(one.worker, one.cached_token_count) for one in others} == {(first.worker, 144)}
    assert others[0].ttft < first.ttft / 5


def test_as_many_blocks_are_looked_up_as_by_the_scheduler() -> None:
    assert MAX_HELD_BLOCKS == MAX_BLOCKS


def test_overhead_before_the_scheduler_is_part_of_the_ttft() -> None:
    platform = SimulatedPlatform()
    platform.add_worker("w", SimConfig(base_seconds=0.01))
    platform.submit(1.5, ticket(0, 1.5, 8, 1), asked_at=1.2)
    platform.run_to_end()
    (outcome,) = platform.outcomes.values()
    assert outcome.ttft == pytest.approx(0.31)
