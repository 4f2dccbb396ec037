"""Times of steps are found from the steps themselves, whatever else the machine does meanwhile."""

import random

import pytest

from headrace.domain.step_times import StepTimes
from headrace.engine.pace.step_time_fit import MIN_STEPS, StepTimeFit

TRUE = StepTimes(0.012, 5e-5, 1e-4, 2e-8)
Step = tuple[int, int, int]


def random_step(chance: random.Random) -> Step:
    sequences = chance.randrange(64)
    prompt_tokens = chance.choice([0, 0, 0, 512, chance.randrange(2048)])
    return prompt_tokens, sequences, sequences * chance.randrange(100, 3000)


def fitted(count: int, times: StepTimes = TRUE, noise: float = 0.02, disturbed: float = 0.0) -> StepTimeFit:
    """A fit to steps of which a share takes several times as long as it should."""
    chance, fit = random.Random(3), StepTimeFit()
    for _ in range(count):
        step = random_step(chance)
        seconds = times.seconds(*step) * max(0.5, chance.gauss(1.0, noise))
        fit.observe(*step, seconds * (chance.uniform(3, 10) if chance.random() < disturbed else 1.0))
    return fit


def mean_error(fit: StepTimeFit, times: StepTimes = TRUE) -> float:
    chance = random.Random(4)
    steps = [random_step(chance) for _ in range(500)]
    assert fit.times is not None
    return sum(abs(fit.times.seconds(*step) / times.seconds(*step) - 1) for step in steps) / len(steps)


def test_nothing_is_predicted_from_few_steps() -> None:
    assert fitted(MIN_STEPS - 1).times is None
    assert fitted(2 * MIN_STEPS).times is not None


@pytest.mark.parametrize("disturbed", [0.0, 0.02, 0.1])
def test_times_are_found_though_some_steps_take_much_longer(disturbed: float) -> None:
    assert mean_error(fitted(1000, disturbed=disturbed)) < 0.04


def test_no_time_is_negative() -> None:
    times = fitted(400, StepTimes(0.02), noise=0.2).times
    assert times is not None
    assert min(times.base_seconds, times.prompt_token_seconds, times.sequence_seconds) >= 0
    assert times.context_token_seconds >= 0


def test_long_equal_steps_leave_other_steps_predictable() -> None:
    """Thousands of decodes in a row say nothing of prompts, and must not have what is known of them forgotten."""
    fit = fitted(500)
    for _ in range(5000):
        fit.observe(0, 8, 8000, TRUE.seconds(0, 8, 8000))
    assert fit.times is not None
    assert fit.times.seconds(0, 8, 8000) == pytest.approx(TRUE.seconds(0, 8, 8000), rel=0.01)
    assert fit.times.seconds(1024, 8, 8000) == pytest.approx(TRUE.seconds(1024, 8, 8000), rel=0.1)


def test_a_machine_that_becomes_slower_is_followed() -> None:
    slower = StepTimes(0.024, 1e-4, 2e-4, 4e-8)
    fit, chance = fitted(1000), random.Random(5)
    for _ in range(400):
        step = random_step(chance)
        fit.observe(*step, slower.seconds(*step))
    assert mean_error(fit, slower) < 0.1
