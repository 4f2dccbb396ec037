"""More workers are wanted within a second, fewer only after a while, and never fewer while anything is unknown."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from headrace.scheduler.core.demand.demand import FOLLOW_SECONDS, LOOK_SECONDS, STALE_SECONDS, Demand
from headrace.scheduler.core.demand.measured_load import Capacity, MeasuredLoad
from headrace.scheduler.core.demand.scaling_terms import ScalingTerms

TERMS = ScalingTerms(settle_seconds=60.0, idle_seconds=120.0, start_seconds=20.0)
CAPACITY = Capacity(slot_count=8, block_count=1000, prefill_rate=1000.0, step_seconds=0.02, hourly_price=2.0)
QUIET = MeasuredLoad(0, 0, 0, 0, worker_count=1, unsure_count=0, capacity=CAPACITY)
OUTPUT = 100.0


def busy(running: int, workers: int, **figures: Any) -> MeasuredLoad:
    return replace(QUIET, running_count=running, worker_count=workers, **figures)


def looked(demand: Demand, load: MeasuredLoad, since: float, until: float) -> float:
    """Looks at the same load, and returns the time of the last look."""
    now = since
    while now < until:
        demand.look(load, OUTPUT, now)
        now += LOOK_SECONDS
    return now


def test_nothing_is_wanted_of_what_is_not_known() -> None:
    demand = Demand(TERMS)
    demand.look(replace(QUIET, worker_count=0, capacity=None), OUTPUT, 0.0)
    assert demand.wanted is None
    assert not demand.is_fresh(0.0)


def test_a_request_for_a_model_that_never_had_a_worker_wants_one() -> None:
    demand = Demand(TERMS)
    demand.note_arrival(10, 0.0)
    demand.look(replace(QUIET, worker_count=0, waiting_count=1, capacity=None), OUTPUT, 0.5)
    assert demand.wanted == 1


def test_a_burst_wants_more_at_the_next_look() -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(4, 1), 0.0, 30.0)
    demand.look(busy(20, 1, waiting_count=12), OUTPUT, now)
    assert demand.wanted == math.ceil(32 / 8 / TERMS.target_use)
    (decision,) = demand.decisions
    assert (decision.before, decision.after, decision.signal) == (1, 5, "requests")
    assert "32 requests run or wait, and a worker runs 8 at once" in decision.reason


def test_waiting_prompts_want_workers_unless_they_are_done_before_a_new_one_is_ready() -> None:
    late, soon = Demand(TERMS), Demand(TERMS)
    late.look(busy(1, 1, waiting_token_count=60_000), OUTPUT, 0.0)
    soon.look(busy(1, 1, waiting_token_count=15_000), OUTPUT, 0.0)
    # One worker computes 20,000 tokens while another starts: 40,000 are left, for 20 s.
    assert (late.wanted, soon.wanted) == (2, 1)
    assert late.decisions[0].signal == "prompts"


def test_memory_in_use_wants_workers() -> None:
    demand = Demand(TERMS)
    demand.look(busy(2, 1, used_block_count=1900), OUTPUT, 0.0)
    assert (demand.wanted, demand.decisions[0].signal) == (3, "memory")


def test_what_is_wanted_does_not_grow_while_workers_start() -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(20, 1, waiting_count=12), 0.0, 15.0)
    assert demand.wanted == 5
    looked(demand, busy(32, 5), now, now + 5)
    assert [decision.after for decision in demand.decisions] == [5]
    assert demand.start_seconds < TERMS.start_seconds, "it was seen to take 15 s"


def test_fewer_are_wanted_only_after_fewer_have_sufficed_for_a_while() -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(32, 5), 0.0, 100.0)
    calm = now
    now = looked(demand, busy(10, 5), now, calm + TERMS.settle_seconds - 1)
    assert demand.wanted == 5
    looked(demand, busy(10, 5), now, now + 2)
    assert demand.wanted == math.ceil(10 / 8 / TERMS.low_use)
    assert "2 more would run than needed, at 4.00 an hour" in demand.decisions[-1].otherwise


def test_without_requests_none_is_wanted_and_the_next_one_wants_one_at_once() -> None:
    demand = Demand(TERMS)
    demand.note_arrival(10, 0.0)
    looked(demand, QUIET, 0.0, TERMS.idle_seconds - 1)
    assert demand.wanted == 1
    now = looked(demand, QUIET, TERMS.idle_seconds - 1, TERMS.idle_seconds + 2)
    assert (demand.wanted, demand.decisions[-1].signal) == (0, "idle")
    demand.note_arrival(10, now)
    assert demand.wanted == 1
    looked(demand, replace(QUIET, worker_count=0, waiting_count=1), now, now + 30)
    assert demand.wanted == 1


@pytest.mark.parametrize("load", [busy(0, 3), busy(1, 0), busy(0, 0)])
def test_nothing_falls_while_a_worker_is_unsure(load: MeasuredLoad) -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(30, 5), 0.0, 100.0)
    looked(demand, replace(load, unsure_count=1), now, now + 1000)
    assert demand.wanted == 5


def test_it_can_rise_while_a_worker_is_unsure() -> None:
    demand = Demand(TERMS)
    looked(demand, replace(busy(30, 3), unsure_count=2), 0.0, 10.0)
    assert demand.wanted == 5


def test_figures_without_workers_keep_the_last_ones() -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(4, 1), 0.0, 10.0)
    looked(demand, replace(QUIET, worker_count=0, waiting_count=30, capacity=None), now, now + 5)
    assert demand.wanted == 5


def test_a_flat_load_changes_nothing_for_an_hour() -> None:
    """Requests of a Poisson process, eight of them at once in the mean, on workers with eight places."""
    chance = random.Random(5)
    demand, ends, now, changes = Demand(TERMS), list[float](), 0.0, 0
    arrival = 0.0
    while now < 3600 + 300:
        while arrival <= now:
            demand.note_arrival(200, arrival)
            ends.append(arrival + chance.expovariate(1 / 4.0))
            arrival += chance.expovariate(2.0)
        ends = [end for end in ends if end > now]
        demand.look(busy(len(ends), demand.wanted or 1), 100.0, now)
        changes += bool(demand.decisions) and demand.decisions[-1].time == now > 300
        now += LOOK_SECONDS
    assert demand.wanted in {2, 3}
    assert changes <= 2


def test_a_follower_wants_what_the_leader_wants_and_takes_over_without_a_drop() -> None:
    demand = Demand(TERMS)
    now = looked(demand, busy(4, 1), 0.0, 100.0)
    demand.adopt(6, now)
    now = looked(demand, busy(4, 6), now, now + FOLLOW_SECONDS)
    assert demand.wanted == 6
    now = looked(demand, busy(4, 6), now, now + TERMS.settle_seconds - FOLLOW_SECONDS - 1)
    assert demand.wanted == 6, "the leader was lost: this one first sees for itself"
    looked(demand, busy(4, 6), now, now + 5)
    assert demand.wanted == 1


def test_a_number_is_fresh_for_a_while_after_a_look() -> None:
    demand = Demand(TERMS)
    demand.look(QUIET, OUTPUT, 0.0)
    assert demand.is_fresh(STALE_SECONDS - 0.1)
    assert not demand.is_fresh(STALE_SECONDS + 0.1)
