"""The policy of residency: budgets hold, pinned models stay, and everybody gets a turn."""

import random

import pytest

from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.policy.residence import Residence
from headrace.engine.residency.policy.residency import Residency
from headrace.engine.residency.policy.residency_limits import ResidencyLimits
from headrace.engine.residency.policy.resident import Resident
from headrace.errors import ConfigError

STAY, PATIENCE, RETRY = 1.0, 2.0, 3.0


def limits(awake: int, asleep: int) -> ResidencyLimits:
    return ResidencyLimits(awake, asleep, stay_seconds=STAY, patience_seconds=PATIENCE, retry_seconds=RETRY)


def resident(name: str, weights: int = 10, kv: int = 5, *, can_sleep: bool = True, is_pinned: bool = False) -> Resident:
    return Resident(name, HeldMemory(weights, kv), can_sleep, is_pinned)


def idle_policy(*residents: Resident, idle_seconds: float) -> Residency:
    """A policy whose models were all used at time 0 and are awake."""
    for one in residents:
        one.residence, one.used_time = Residence.AWAKE, 0.0
    return Residency(ResidencyLimits(100, 100, idle_seconds=idle_seconds), residents)


class Acting:
    """A policy whose moves succeed at once."""

    def __init__(self, awake: int, asleep: int, *residents: Resident) -> None:
        self.policy = Residency(limits(awake, asleep), residents)
        self.now = 0.0
        self.moves: list[tuple[str, str]] = []

    def want(self, name: str) -> None:
        one = self.policy.residents[name]
        one.waiting_since = self.now if one.waiting_since is None else one.waiting_since

    def settle(self) -> None:
        """Moves until nothing is to be moved now. Models that come in find their requests done."""
        while (move := self.policy.begin(self.now)) is not None:
            self.policy.check_invariants()
            self.policy.finish(move, 0.5, self.now)
            self.moves.append((move.kind.value, move.name))
            one = self.policy.residents[move.name]
            if one.residence is Residence.AWAKE:
                one.waiting_since = None
            elif one.is_busy:
                one.waiting_since = self.now

    def take(self) -> list[tuple[str, str]]:
        moves, self.moves = self.moves, []
        return moves


def test_the_least_recently_used_leaves_before_the_next_comes() -> None:
    acting = Acting(30, 20, *(resident(name) for name in "abc"))
    for name in "ab":
        acting.want(name)
        acting.settle()
        acting.now += 0.1
    assert acting.take() == [("load", "a"), ("load", "b")]
    acting.now += STAY
    acting.policy.residents["a"].used_time = acting.now
    acting.want("c")
    acting.settle()
    assert acting.take() == [("sleep", "b"), ("load", "c")]


def test_a_model_that_nobody_asks_for_leaves_memory_and_a_request_brings_it_back() -> None:
    policy = idle_policy(resident("a"), resident("b"), resident("p", is_pinned=True), idle_seconds=60.0)
    policy.residents["b"].used_time = 30.0
    assert policy.begin(59.9) is None
    move = policy.begin(60.0)
    assert move == Move(MoveKind.DROP, "a")
    policy.finish(move, 0.1, 60.1)
    assert policy.begin(89.9) is None, "the other was used later, and a pinned one stays"
    policy.residents["a"].waiting_since = 70.0
    assert policy.begin(89.9) == Move(MoveKind.LOAD, "a")


def test_a_busy_model_is_not_idle_however_long_its_step_takes() -> None:
    policy = idle_policy(resident("a"), idle_seconds=1.0)
    policy.residents["a"].is_busy = True
    assert policy.begin(1000.0) is None


def test_without_an_idle_time_models_stay() -> None:
    policy = idle_policy(resident("a"), idle_seconds=float("inf"))
    assert policy.begin(1e9) is None


def test_a_sleeping_model_leaves_host_memory_too() -> None:
    policy = idle_policy(resident("a"), idle_seconds=5.0)
    policy.residents["a"].residence = Residence.ASLEEP
    assert policy.begin(5.0) == Move(MoveKind.DROP, "a")


def test_nobody_leaves_before_its_least_stay_is_over() -> None:
    acting = Acting(15, 20, resident("a"), resident("b"))
    acting.want("a")
    acting.settle()
    acting.want("b")
    acting.now = STAY - 0.01
    acting.settle()
    assert acting.take() == [("load", "a")]
    acting.now = STAY
    acting.settle()
    assert acting.take() == [("sleep", "a"), ("load", "b")]


def test_a_busy_model_drains_and_then_sleeps_in_the_middle() -> None:
    acting = Acting(15, 20, resident("a"), resident("b"))
    acting.want("a")
    acting.settle()
    acting.policy.residents["a"].is_busy = True
    acting.now = 10.0
    acting.want("b")
    acting.settle()
    assert acting.policy.draining == "a"
    acting.now += PATIENCE
    acting.settle()
    assert acting.take() == [("load", "a"), ("sleep", "a"), ("load", "b")]
    assert acting.policy.draining is None
    acting.now += STAY
    acting.settle()
    assert acting.take() == [("sleep", "b"), ("wake", "a")], "what slept in the middle comes back by itself"


def test_a_model_is_left_alone_for_longer_each_time_it_is_interrupted() -> None:
    """Its requests are computed again after each sleep: without that, a long prompt would never be read to its end."""
    acting = Acting(15, 20, resident("a"), resident("b"))
    stays: list[float] = []
    for _ in range(4):
        acting.want("a")
        acting.settle()
        acting.policy.residents["a"].is_busy = True
        came = acting.now
        acting.want("b")
        while acting.policy.residents["a"].residence is Residence.AWAKE:
            acting.now += 0.125
            acting.settle()
        stays.append(acting.now - came)
        acting.now += STAY
    assert stays == [PATIENCE, 2 * PATIENCE, 4 * PATIENCE, 8 * PATIENCE]


def test_a_busy_model_that_cannot_sleep_is_waited_for() -> None:
    acting = Acting(15, 20, resident("a", can_sleep=False), resident("b"))
    acting.want("a")
    acting.settle()
    acting.policy.residents["a"].is_busy = True
    acting.now = 10.0
    acting.want("b")
    acting.now = 100.0
    acting.settle()
    assert (acting.take(), acting.policy.draining) == ([("load", "a")], "a")
    acting.policy.residents["a"].is_busy = False
    acting.settle()
    assert acting.take() == [("drop", "a"), ("load", "b")]


def test_host_memory_gives_way_by_lru_but_not_with_requests_in_it() -> None:
    acting = Acting(15, 10, *(resident(name) for name in "abc"))
    for name in "abc":
        acting.want(name)
        acting.settle()
        acting.now += STAY
    assert acting.take() == [("load", "a"), ("sleep", "a"), ("load", "b"), ("drop", "a"), ("sleep", "b"), ("load", "c")]
    acting.policy.residents["b"].is_busy = True
    acting.want("a")
    acting.settle()
    assert acting.take() == [("drop", "c"), ("load", "a")], "b holds requests, so c has no room to sleep"


def test_pinned_models_come_by_themselves_and_stay() -> None:
    acting = Acting(30, 20, resident("a", is_pinned=True), resident("b"), resident("c"))
    acting.settle()
    assert acting.take() == [("load", "a")]
    for name in "bcbc":
        acting.now += 10.0
        acting.want(name)
        acting.settle()
    assert {name for _, name in acting.take()} == {"b", "c"}
    assert acting.policy.residents["a"].residence is Residence.AWAKE


def test_the_warm_pool_is_filled_at_the_start() -> None:
    made = [resident(name) for name in "abc"]
    made[2].is_pinned = True
    for one in made:
        one.residence = Residence.ASLEEP
    policy = Residency(limits(30, 30), made)
    moves = []
    while (move := policy.warm_move()) is not None:
        policy.finish(move, 0.1, 0.0)
        moves.append(move)
    assert moves == [Move(MoveKind.WAKE, "c"), Move(MoveKind.WAKE, "a")]


def test_a_model_that_can_never_come_in_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"model b takes 15 bytes .* pinned models take 15"):
        Residency(limits(29, 20), [resident("a", is_pinned=True), resident("b")])


def test_a_lost_model_is_left_alone_for_a_while() -> None:
    acting = Acting(15, 20, resident("a"))
    acting.want("a")
    assert acting.policy.begin(0.0) == Move(MoveKind.LOAD, "a")
    acting.policy.lose("a", 0.0)
    acting.want("a")
    assert acting.policy.begin(RETRY - 0.1) is None
    assert acting.policy.predicted_wait("a", 1.0) == pytest.approx(RETRY - 1.0)
    assert acting.policy.begin(RETRY) == Move(MoveKind.LOAD, "a")


def test_spare_moves_spare_what_works() -> None:
    acting = Acting(100, 100, *(resident(name, is_pinned=name == "a") for name in "abcd"))
    for name in "bcd":
        acting.want(name)
    acting.settle()
    acting.policy.residents["b"].is_busy = True
    acting.policy.residents["c"].residence = Residence.ASLEEP
    assert acting.policy.spare_move("x") == Move(MoveKind.DROP, "c")
    assert acting.policy.spare_move("x") == Move(MoveKind.DROP, "d")
    assert acting.policy.spare_move("x") is None


def test_waits_are_predicted_from_what_moves_took() -> None:
    acting = Acting(15, 20, resident("a"), resident("b"))
    policy = acting.policy
    policy.times.note(Move(MoveKind.LOAD, "a"), 4.0)
    assert policy.predicted_wait("a", 0.0) == 4.0
    assert policy.predicted_wait("b", 0.0) == 4.0, "by what others took"
    acting.want("a")
    acting.settle()
    assert policy.predicted_wait("a", 0.0) == 0.0
    assert policy.predicted_wait("b", 0.25) > STAY - 0.25, "room has to be made first"
    acting.want("b")
    policy.draining = "a"
    assert policy.predicted_wait("a", 0.25) > 0.0


@pytest.mark.parametrize("seed", range(20))
def test_random_lives_keep_the_promises(seed: int) -> None:
    """Budgets hold after every event, pinned models stay once they are loaded, and no request waits forever."""
    dice = random.Random(seed)
    made = [
        resident(str(number), dice.randint(1, 20), dice.randint(0, 10), can_sleep=dice.random() < 0.8)
        for number in range(8)
    ]
    made[0].is_pinned = dice.random() < 0.5
    most = max(one.awake_bytes for one in made)
    policy = Residency(limits(made[0].awake_bytes + most + dice.randint(0, 30), dice.randint(0, 60)), made)
    now, ends = 0.0, dict[str, float]()
    for _ in range(3000):
        now += dice.expovariate(5.0)
        one = dice.choice(made)
        if one.residence is Residence.AWAKE and policy.draining != one.name:
            one.is_busy, one.used_time = True, now
            ends[one.name] = max(ends.get(one.name, 0.0), now + dice.expovariate(0.5))
        elif one.waiting_since is None and one.residence is not Residence.AWAKE:
            one.waiting_since = now
        for name in [name for name, end in ends.items() if end <= now]:
            if policy.residents[name].residence is Residence.AWAKE:
                policy.residents[name].is_busy = False
                del ends[name]
        move = policy.begin(now)
        policy.check_invariants()
        if move is None:
            continue
        moved = policy.residents[move.name]
        assert not (moved.is_pinned and move.kind in (MoveKind.SLEEP, MoveKind.DROP))
        assert not (moved.is_busy and move.kind is MoveKind.DROP)
        if move.kind.target is Residence.AWAKE and dice.random() < 0.05:
            policy.lose(move.name, now)
            ends.pop(move.name, None)
        else:
            now += 0.01
            policy.finish(move, 0.01, now)
            moved.waiting_since = now if moved.is_busy and moved.residence is not Residence.AWAKE else None
        policy.check_invariants()
        longest = max((now - each.waiting_since for each in made if each.waiting_since is not None), default=0.0)
        assert longest < 8 * (STAY + PATIENCE + RETRY + 30.0)


def test_a_model_that_is_pinned_later_comes_in_and_stays() -> None:
    acting = Acting(30, 30, resident("a"), resident("b"), resident("c"))
    acting.policy.pin("c", is_pinned=True)
    acting.settle()
    assert acting.take() == [("load", "c")]
    for name in ("a", "b", "a"):
        acting.now += STAY
        acting.want(name)
        acting.settle()
    assert acting.policy.residents["c"].residence is Residence.AWAKE
    with pytest.raises(ConfigError, match="pin fewer models"):
        acting.policy.pin("a", is_pinned=True)
    assert not acting.policy.residents["a"].is_pinned
    acting.policy.pin("c", is_pinned=False)
    acting.want("b")
    acting.now += STAY
    acting.settle()
    assert acting.policy.residents["c"].residence is not Residence.AWAKE
