"""Predicts the lengths of outputs of real traffic, each before it ends, as if every file were one tenant of one model:

    python -m tests.benchmarks.predicted_outputs TRACE...

Prints, per tenant, the error of the mean of 64 requests, which queues and prices go by, and the share of outputs within
the interval. TRACE is a file that `headrace simulate` reads. Every request asks for 4,096 tokens at most, and ends when
32 more have come.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace.scheduler.core.foresight.output_length import OutputLength
from headrace.scheduler.core.foresight.output_lengths import OutputLengths
from headrace.scheduler.simulation.trace_file import read_trace

MAX_TOKENS = 4096
OPEN_COUNT = 32
GROUP = 64
"""Requests whose mean is compared."""
Pairs = list[tuple[OutputLength, int]]
"""Predicted and real lengths."""


class MovingMean:
    """Predicts the mean of all tenants, in which each newest output has a tenth of the weight."""

    def __init__(self) -> None:
        self._mean = 128.0

    def expected(self, _tenant: str, max_token_count: int) -> OutputLength:
        """Returns the prediction of a request."""
        return OutputLength(min(max_token_count, self._mean), 0, max_token_count)

    def note(self, _tenant: str, _max_token_count: int, token_count: int) -> None:
        """Learns from an output that ended."""
        self._mean += 0.1 * (token_count - self._mean)


def predicted(arrivals: Iterable[tuple[str, int]], predictor: OutputLengths | MovingMean) -> dict[str, Pairs]:
    """Returns predicted and real lengths by tenant."""
    found: dict[str, Pairs] = {}
    running: deque[tuple[str, int]] = deque()
    for tenant, count in arrivals:
        found.setdefault(tenant, []).append((predictor.expected(tenant, MAX_TOKENS), count))
        running.append((tenant, count))
        if len(running) > OPEN_COUNT:
            ended, length = running.popleft()
            predictor.note(ended, MAX_TOKENS, length)
    return found


def group_error(pairs: Pairs, mean: Callable[[OutputLength], float]) -> float:
    """Returns the mean error of the means of groups of requests that follow each other, as a share of the real one."""
    groups = [pairs[start : start + GROUP] for start in range(0, len(pairs) - GROUP, GROUP)]
    real = [sum(count for _, count in group) for group in groups]
    errors = [
        abs(sum(mean(one) for one, _ in group) - whole) / whole for group, whole in zip(groups, real, strict=True)
    ]
    return sum(errors) / len(errors)


def main() -> None:
    paths = [Path(argument) for argument in sys.argv[1:]]
    rows = [(one.time, path.stem, one.output_token_count) for path in paths for one in read_trace(path).arrivals]
    arrivals = [(tenant, count) for _, tenant, count in sorted(rows)]
    ours, moving = predicted(arrivals, OutputLengths()), predicted(arrivals, MovingMean())
    print(
        "| tenant | requests | mean, tokens | error by max_tokens | by one moving mean | by lengths | in the interval |"
    )
    print("|---|---|---|---|---|---|---|")
    for tenant, pairs in ours.items():
        by_most = group_error(pairs, lambda _one: MAX_TOKENS)
        by_mean, by_length = (group_error(each, lambda one: one.mean) for each in (moving[tenant], pairs))
        inside = sum(one.low <= count <= one.high for one, count in pairs) / len(pairs)
        mean = sum(count for _, count in pairs) / len(pairs)
        errors = f"{by_most:.2f} | {by_mean:.3f} | {by_length:.3f}"
        print(f"| {tenant} | {len(pairs):,} | {mean:.0f} | {errors} | {inside:.3f} |")


if __name__ == "__main__":
    main()
