"""Ways to compute the same thing, measured in turns."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.gpu.clock import Clock
from torch import Tensor

from headrace.planning.device_profile import DeviceProfile
from headrace.planning.roofline import Launch

OURS = "triton"
Computation = Callable[[], Tensor]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way."""

    name: str
    prepare: Callable[[], Computation]
    """Makes what is timed. An exception tells why the contender does not take part."""
    launch: Launch
    """Bytes and operations of this way."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Ways to one result."""

    kind: str
    """Heading under which it is reported."""
    name: str
    row_count: int
    precision: str
    expected: Computation
    contenders: tuple[Contender, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """Measured times of one contender."""

    kind: str
    contest: str
    contender: str
    row_count: int
    seconds: float = 0.0
    """Median of the rounds. 0: it did not take part."""
    fastest: float = 0.0
    slowest: float = 0.0
    predicted: float = 0.0
    """Time by the roofline of the device profile. 0: there is no profile."""
    moved_bytes: float = 0.0
    error: float = 0.0
    """Largest difference from what was expected, as a share of the largest number expected."""
    refusal: str = ""


def compete(contest: Contest, clock: Clock, round_count: int, profile: DeviceProfile | None) -> list[Figure]:
    """Measures the contenders that can take part, in turns, and compares each with what is expected."""
    figures: list[Figure] = []
    ready: list[tuple[Contender, Computation, float]] = []
    expected = contest.expected()
    for contender in contest.contenders:
        try:
            run = contender.prepare()
            ready.append((contender, run, _difference(run(), expected)))
        except Exception as failure:  # noqa: BLE001
            # Whatever a peer raises is no reason to measure nothing.
            figures.append(_figure(contest, contender, refusal=in_words(failure)))
    times = clock.measure([run for _, run, _ in ready], round_count)
    for (contender, _, difference), seconds in zip(ready, times, strict=True):
        figures.append(_measured(contest, contender, seconds, profile, difference))
    order = [contender.name for contender in contest.contenders]
    return sorted(figures, key=lambda figure: order.index(figure.contender))


def _measured(
    contest: Contest, contender: Contender, seconds: Sequence[float], profile: DeviceProfile | None, error: float
) -> Figure:
    return Figure(
        contest.kind,
        contest.name,
        contender.name,
        contest.row_count,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        contender.launch.seconds(profile, contest.precision) if profile else 0.0,
        contender.launch.moved_bytes,
        error,
    )


def _figure(contest: Contest, contender: Contender, refusal: str) -> Figure:
    return Figure(contest.kind, contest.name, contender.name, contest.row_count, refusal=refusal)


def _difference(found: Tensor, expected: Tensor) -> float:
    difference = (found.float() - expected.float()).abs().max()
    return float(difference / expected.float().abs().max().clamp(min=1e-30))


def in_words(error: Exception) -> str:
    """Returns the kind of an error and the first line that it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:160]
