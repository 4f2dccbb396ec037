"""Search for the fewest workers with which traffic meets its service levels."""

from collections.abc import Callable, Iterator
from typing import Any

from headrace.launch.worker_bounds import WorkerBounds

WANTED_SHARE = 0.95
"""Share of requests that have to meet the service levels: then the 95th percentile does."""

Figures = dict[str, Any]


class WorkerSearch:
    """Simulates numbers of workers, each once. More workers are taken to serve no fewer requests in time."""

    def __init__(self, simulate: Callable[[int], Figures], bounds: WorkerBounds) -> None:
        self._simulate = simulate
        self._bounds = bounds
        self._found: dict[int, Figures] = {}

    def result(self) -> dict[str, Any]:
        """Returns the fewest workers that suffice, the fewest that do so even at the low end of the interval, and the
        figures of every number that was tried. None: even the most do not suffice."""
        fewest = self._fewest(lambda one: one["goodput_share"])
        certain = self._fewest(lambda one: (one["goodput_interval"] or [0.0])[0])
        tried = [self._found[count] for count in sorted(self._found)]
        return {"workers": fewest, "certain_workers": certain, "wanted_share": WANTED_SHARE, "tried": tried}

    def _fewest(self, share: Callable[[Figures], float]) -> int | None:
        low, high = max(1, self._bounds.least), self._bounds.most
        enough = None
        for count in _doubling(low, high):
            if share(self._at(count)) >= WANTED_SHARE:
                enough = count
                break
            low = count + 1
        while enough is not None and low < enough:
            middle = (low + enough) // 2
            if share(self._at(middle)) >= WANTED_SHARE:
                enough = middle
            else:
                low = middle + 1
        return enough

    def _at(self, count: int) -> Figures:
        if count not in self._found:
            self._found[count] = self._simulate(count)
        return self._found[count]


def _doubling(low: int, high: int) -> Iterator[int]:
    """Yields numbers from low to high, each twice the one before."""
    while low < high:
        yield low
        low *= 2
    yield high
