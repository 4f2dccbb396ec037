"""A worker whose model is awake gets the request, unless one whose model sleeps would still be sooner."""

from collections.abc import Mapping
from dataclasses import replace

from headrace.domain.step_times import StepTimes
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.placement import Choice, choose
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.queueing.ticket import Ticket


def report(name: str, wait_seconds: float = 0.0, waiting_token_count: int = 0) -> WorkerReport:
    return WorkerReport(
        name,
        epoch=1,
        version=1,
        model="m",
        credit_count=8,
        block_count=100,
        block_size=16,
        prefill_rate=1000.0,
        step_seconds=0.01,
        waiting_token_count=waiting_token_count,
        wait_seconds=wait_seconds,
    )


def chosen(
    *reports: WorkerReport, output_tokens: float = 4.0, prompt: int = 10, held: Mapping[str, HeldPrefix] | None = None
) -> Choice:
    fleet = Fleet()
    for each in reports:
        fleet.take_report(each, answers=True, now=0.0)
    ticket = Ticket("r", 1, "m", "t", 0.0, deadline=60.0, prompt_token_count=prompt, max_token_count=4000)
    ticket = replace(ticket, held=held or {})
    choice = choose(ticket, output_tokens, fleet, 10_000, spares=False, now=0.0)
    assert choice is not None
    return choice


def test_a_model_that_is_awake_is_preferred() -> None:
    choice = chosen(report("asleep", wait_seconds=0.8), report("awake"))
    assert choice.worker.worker_id == "awake"
    seconds = {candidate.worker_id: candidate.first_token_seconds for candidate in choice.candidates}
    assert seconds["asleep"] - seconds["awake"] > 0.79, "the wake counts into the first token"


def test_a_faster_worker_is_chosen_though_it_has_more_requests() -> None:
    """Unless it is for a prefix that it holds: shares of loads are no measure of unlike workers."""
    fast = replace(report("fast"), step_times=StepTimes(0.01, 1e-5, 1e-5), open_count=7, credit_count=8)
    slow = replace(report("slow"), step_times=StepTimes(0.1, 1e-2, 1e-3), credit_count=8)
    assert chosen(fast, slow).worker.worker_id == "fast"


def test_a_worker_that_has_measured_nothing_is_taken_to_be_as_fast_as_its_like() -> None:
    """By its proof, a prompt of one token in a step, it would read the prompt in 8 s and never be asked to."""
    busy = replace(report("busy", waiting_token_count=800), step_times=StepTimes(0.01, 1e-3), open_count=1)
    new = replace(report("new"), prefill_rate=200.0, computed_token_count=1)
    assert chosen(busy, new, prompt=1600).worker.worker_id == "new"
    assert chosen(new, busy, prompt=1600).worker.worker_id == "new", "whichever reports first"
    slow = replace(new, computed_token_count=5000)
    assert chosen(busy, slow, prompt=1600).worker.worker_id == "busy", "it has measured its own pace"


def test_a_wake_may_be_sooner_than_a_long_queue() -> None:
    busy = report("awake", waiting_token_count=5000)
    assert chosen(report("asleep", wait_seconds=0.8), busy).worker.worker_id == "asleep"


def test_of_workers_that_are_about_as_soon_the_least_loaded_is_chosen() -> None:
    """Fits of equal workers are never equal: one of them would get everything."""
    sooner = replace(report("sooner"), step_times=StepTimes(0.001, 1e-4), open_count=1)
    idle = replace(report("idle"), step_times=StepTimes(0.003, 4e-4))
    assert chosen(sooner, idle).worker.worker_id == "idle", "milliseconds say nothing"
    sooner = replace(report("sooner"), step_times=StepTimes(1.0), open_count=1)
    assert chosen(sooner, replace(idle, step_times=StepTimes(1.08))).worker.worker_id == "idle", "nor do 8 %"
    assert chosen(sooner, replace(idle, step_times=StepTimes(1.2))).worker.worker_id == "sooner"


def test_a_prefix_on_a_disk_counts_by_how_fast_that_is_read() -> None:
    """1,600 tokens are computed in 1.6 s. Their 100 blocks are 100 MB: 0.1 s of a fast disk, 10 s of a slow one."""
    reader = replace(report("reader"), step_times=StepTimes(0.01, 1e-3), block_bytes=1_000_000, disk_rate=1e9)
    holder = replace(report("holder"), step_times=StepTimes(0.01, 1e-3))
    kept = {"reader": HeldPrefix(0, 100)}
    (first, other) = chosen(reader, holder, prompt=1610, held=kept).candidates
    assert (first.worker_id, other.worker_id) == ("reader", "holder")
    assert first.first_token_seconds < 0.15 < 1.5 < other.first_token_seconds
    unmeasured = replace(reader, disk_rate=0.0)
    assert chosen(unmeasured, holder, prompt=1610, held=kept).worker.worker_id == "reader"
    slow = replace(reader, disk_rate=1e7)
    assert chosen(slow, holder, prompt=1610, held=kept).worker.worker_id == "holder", "it is sooner computed"
    both = kept | {"holder": HeldPrefix(99)}
    assert chosen(reader, holder, prompt=1610, held=both).worker.worker_id == "holder", "memory is sooner than a disk"
    busy = replace(reader, open_count=8, credit_count=1)
    assert chosen(busy, holder, prompt=1610, held=kept).worker.worker_id == "holder", "its load is beyond the bound"


def test_prices_that_differ_by_little_are_equal() -> None:
    cheaper = replace(report("cheaper"), hourly_price=1.0, open_count=1)
    idle = replace(report("idle"), hourly_price=1.05)
    assert chosen(cheaper, idle).worker.worker_id == "idle"
    assert chosen(cheaper, replace(idle, hourly_price=2.0)).worker.worker_id == "cheaper"


def test_a_price_is_that_of_the_output_predicted_and_not_of_the_most_asked_for() -> None:
    """A worker of twice the price by the hour is cheaper if it reads prompts ten times as fast, unless much comes."""
    reader = replace(report("reader"), hourly_price=2.0, prefill_rate=10_000.0)
    writer = replace(report("writer"), hourly_price=1.0, prefill_rate=100.0)
    assert chosen(reader, writer, output_tokens=1.0).worker.worker_id == "reader"
    assert chosen(reader, writer, output_tokens=2000.0).worker.worker_id == "writer"


def test_only_a_worker_that_is_allowed_is_chosen() -> None:
    fleet = Fleet()
    for name in ("a", "b", "c", "d", "e", "f"):
        fleet.take_report(report(name), answers=True, now=0.0)
    fleet.take_report(report("busy", waiting_token_count=5000), answers=True, now=0.0)
    ticket = Ticket("r", 1, "m", "t", 0.0, 60.0, 10, 4, allowed=frozenset({"busy", "gone"}))
    choice = choose(ticket, 4.0, fleet, 10_000, spares=False, now=0.0)
    assert choice is not None
    assert [candidate.worker_id for candidate in choice.candidates] == ["busy"]
    assert choose(replace(ticket, allowed=frozenset()), 4.0, fleet, 10_000, spares=False, now=0.0) is None
