"""Steps of the first minutes, in order. Each yields its results one by one, as they are known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.gpu.first_light import card_tests, facts, kernels, speed, tokens
from tests.benchmarks.gpu.first_light.trial import Trial

Result = dict[str, Any]
"""One line: numbers and words by name. `ok` false: something is wrong."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the trial that has a process of its own, and fails alone."""

    name: str
    seconds: float
    """Time that it may take on a card. In a rehearsal, ten times as long."""
    run: Callable[[Trial], Iterator[Result]]


STEPS = (
    Step("facts", 15, facts.read_facts),
    Step("kernels", 90, kernels.compare_kernels),
    Step("tests", 120, card_tests.run_card_tests),
    Step("tokens", 100, tokens.compare_tokens),
    Step("speed", 170, speed.time_engine),
    Step("rivals", 50, speed.time_rivals),
    Step("tiles", 60, kernels.time_tiles),
)
