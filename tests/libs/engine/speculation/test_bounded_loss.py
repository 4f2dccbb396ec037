"""No text makes generation slower than 0.98 times what it is without speculation: on a simulated clock, with draft
tokens that are right and wrong at the worst moments, and with costs that change in the middle."""

import itertools
import random
from collections.abc import Callable

import pytest
from tests.libs.engine.speculation.simulated_text import (
    Accepts,
    Costs,
    SimulatedClock,
    SimulatedDrafter,
    SimulatedModel,
)

from headrace.engine.speculation.draft_ledger import CAPITAL
from headrace.engine.speculation.speculator import Speculator
from headrace.engine.speculation.step_cost import ROW_COUNTS, StepCost

FLOOR = 0.98
TOKENS = 200


def waits_for_memory(rows: int) -> float:
    return 0.010 * max(1 + 0.06 * (rows - 1), 0.25 * rows)


def computes(rows: int) -> float:
    return 0.010 * (0.2 + 0.8 * rows)


def stairs(rows: int) -> float:
    return 0.010 * (1 + 0.5 * ((rows - 1) // 4))


MODELS: dict[str, Costs] = {"memory": waits_for_memory, "compute": computes, "stairs": stairs}


def trusted_then_wrong(drafts: int, token_count: int) -> int:
    return drafts if token_count % 60 < 20 else 0


def alternating(drafts: int, token_count: int) -> int:
    return drafts if token_count % 2 else 0


def first_only(drafts: int, token_count: int) -> int:
    return 1


TEXTS: dict[str, Accepts] = {
    "wrong": lambda _drafts, _token_count: 0,
    "trusted": trusted_then_wrong,
    "alternating": alternating,
    "first": first_only,
    "random": lambda drafts, token_count: random.Random(token_count).randint(0, drafts),
}


def repeats(token_count: int) -> int:
    """The three tokens before any token come again and again, and the one after them never does."""
    return token_count if token_count % 4 == 0 else 3 + token_count % 4


def never_repeats(token_count: int) -> int:
    return 1000 + token_count


def make(costs: Costs, *, has_model: bool, reading: float = 0.0, look_seconds: float = 2e-6) -> SimulatedModel:
    clock = SimulatedClock(look_seconds=look_seconds)
    table = {rows: costs(rows) for rows in ROW_COUNTS}
    drafter = SimulatedDrafter(clock, lambda rows: 0.1 * costs(rows), reading)
    drafter.known = StepCost({rows: 0.1 * seconds for rows, seconds in table.items()})
    speculator = Speculator(drafter if has_model else None, step_seconds=table, clock=clock)  # type: ignore[arg-type]
    return SimulatedModel(costs, speculator, clock)


@pytest.mark.parametrize("batch", [1, 2, 4, 16])
@pytest.mark.parametrize("costs", MODELS)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("continuation", [repeats, never_repeats])
def test_no_text_is_slower_than_the_floor(
    batch: int, costs: str, text: str, continuation: Callable[[int], int]
) -> None:
    for has_model in (False, True):
        model = make(MODELS[costs], has_model=has_model)
        for number in range(4):
            names = [f"{number}-{index}" for index in range(batch)]
            found = model.run(names, TOKENS, TEXTS[text], continuation)
            assert found["plain"] / found["spent"] >= FLOOR, (has_model, number)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("factors", [(3.0, 3.0), (0.7, 0.7), (2.0, 1.0)])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("changed_at", [30, 100, 170])
def test_costs_that_change_in_the_middle_are_noticed(
    batch: int, factors: tuple[float, float], text: str, changed_at: int
) -> None:
    """`factors`: of a step without draft tokens, and of others."""
    tokens = 0

    def costs(rows: int) -> float:
        factor = 1.0 if tokens < changed_at * batch else factors[rows > batch]
        return factor * waits_for_memory(rows)

    def continuation(token_count: int) -> int:
        nonlocal tokens
        tokens += 1
        return repeats(token_count)

    model = make(costs, has_model=True)
    found = model.run([str(index) for index in range(batch)], TOKENS, TEXTS[text], continuation)
    assert found["plain"] / found["spent"] >= FLOOR


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("batch", [1, 4])
def test_steps_with_draft_tokens_that_suddenly_cost_twice_as_much_stop_soon(text: str, batch: int) -> None:
    """The first cannot be foreseen, and one alone might be another process's doing: each costs a batch of four 1 % of
    200 tokens."""
    tokens = 0

    def costs(rows: int) -> float:
        return (2 if tokens >= 30 * batch and rows > batch else 1) * waits_for_memory(rows)

    def continuation(token_count: int) -> int:
        nonlocal tokens
        tokens += 1
        return repeats(token_count)

    found = make(costs, has_model=True).run(list("abcd"[:batch]), TOKENS, TEXTS[text], continuation)
    assert found["plain"] / found["spent"] >= FLOOR - 0.02


def test_one_disturbed_step_does_not_end_what_is_right() -> None:
    """A step in ten takes five times as long, with and without draft tokens."""
    count = itertools.count()

    def costs(rows: int) -> float:
        return (5 if next(count) % 20 < 2 else 1) * waits_for_memory(rows)

    model = make(waits_for_memory, has_model=True)
    model.costs = costs
    names = [str(number) for number in range(4)]
    steps = sum(model.run([name], TOKENS, lambda drafts, _: drafts, never_repeats)["steps"] for name in names)
    assert steps < 0.5 * TOKENS * len(names)


@pytest.mark.parametrize("look_seconds", [1e-5, 1e-4, 1e-3])
def test_looking_for_repetitions_is_bounded_too(look_seconds: float) -> None:
    """Even where a look takes a tenth of a step."""
    model = make(waits_for_memory, has_model=False, look_seconds=look_seconds)
    for number in range(4):
        found = model.run([str(number)], TOKENS, TEXTS["wrong"], repeats)
        assert found["plain"] / found["spent"] >= FLOOR


def test_reading_for_nothing_is_bounded_over_all_texts() -> None:
    """A draft model that is always wrong, and reads for twelve steps' time before it drafts."""
    model = make(waits_for_memory, has_model=True, reading=12 * waits_for_memory(1))
    plain = spent = 0.0
    for number in range(100):
        found = model.run([str(number)], TOKENS, TEXTS["wrong"], never_repeats)
        plain, spent = plain + found["plain"], spent + found["spent"]
        assert spent <= plain / FLOOR + CAPITAL * waits_for_memory(1)
    assert plain / spent >= FLOOR


def test_what_is_right_is_fast() -> None:
    """The bound does not keep a good draft model from what it can gain."""
    always: Accepts = lambda drafts, _token_count: drafts  # noqa: E731
    for batch, least in ((1, 2.5), (2, 1.8), (4, 1.15)):
        model = make(waits_for_memory, has_model=True)
        found = model.run([str(index) for index in range(batch)], TOKENS, always, never_repeats)
        assert found["plain"] / found["spent"] > least, batch


def test_the_simulated_adversaries_get_their_chance() -> None:
    """Draft tokens are made in these texts, and without an allowance they would cost more than the floor allows."""
    count = itertools.count()

    def wrong(_drafts: int, _token_count: int) -> int:
        next(count)
        return 0

    model = make(waits_for_memory, has_model=True)
    model.run(["r"], TOKENS, wrong, repeats)
    assert next(count) >= 2
