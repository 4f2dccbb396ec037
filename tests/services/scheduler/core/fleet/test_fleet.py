"""One worker is kept free of batch work, and stays the same while it is about as fast as the others."""

from dataclasses import replace

from tests.services.scheduler.core.fleet.test_placement import report

from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.worker import KNOWN_TOKEN_COUNT


def fleet_of(**rates: float) -> Fleet:
    """Makes a fleet of workers by name, with the tokens that each prefills per second."""
    fleet = Fleet()
    for name, rate in rates.items():
        fleet.take_report(replace(report(name), prefill_rate=rate), answers=True, now=0.0)
    fleet.choose_reserved()
    return fleet


def measure(fleet: Fleet, version: int, **rates: float) -> str:
    """Takes new rates in. Returns the worker that is kept free then."""
    for name, rate in rates.items():
        fleet.take_report(replace(report(name), version=version, prefill_rate=rate), answers=True, now=0.1 * version)
    fleet.choose_reserved()
    return fleet.reserved


def test_the_fastest_is_kept_free_and_the_only_one_is_not() -> None:
    assert fleet_of(a=1000.0, b=2000.0).reserved == "b"
    assert fleet_of(a=1000.0).reserved == ""


def test_rates_that_move_with_the_traffic_do_not_change_it() -> None:
    fleet = fleet_of(a=1000.0, b=1001.0)
    assert [measure(fleet, 2 + turn, a=1000.0 + 900 * (turn % 2), b=1000.0) for turn in range(6)] == ["b"] * 6


def test_a_much_faster_worker_takes_its_place() -> None:
    fleet = fleet_of(a=1000.0, b=1001.0)
    assert measure(fleet, 2, c=2500.0) == "c"


def test_the_place_of_a_worker_that_computes_prompts_for_others_now_is_taken() -> None:
    fleet = fleet_of(a=1000.0, b=2000.0, c=1500.0)
    fleet.take_report(replace(report("b"), version=2, prefill_rate=2000.0, is_prefill=True), answers=True, now=0.2)
    fleet.choose_reserved()
    assert fleet.reserved == "c"


def test_a_worker_that_has_measured_nothing_is_judged_by_one_that_is_still_there() -> None:
    fleet = Fleet()
    paces = {"fast": 9000.0, "slow": 1000.0}
    for name, rate in paces.items():
        measured = replace(report(name), prefill_rate=rate, computed_token_count=KNOWN_TOKEN_COUNT)
        fleet.take_report(measured, answers=True, now=0.0)
    fleet.take_report(replace(report("new"), prefill_rate=200.0), answers=True, now=0.1)
    assert fleet.workers["new"].pace.prefill_rate == 9000.0
    fleet.remove("fast", report("fast").epoch)
    fleet.take_report(replace(report("new"), version=2, prefill_rate=200.0), answers=True, now=0.2)
    assert fleet.workers["new"].pace.prefill_rate == 1000.0
    fleet.remove("slow", report("slow").epoch)
    fleet.take_report(replace(report("slow"), epoch=9, prefill_rate=200.0), answers=True, now=0.3)
    assert fleet.workers["slow"].pace.prefill_rate == 1000.0
