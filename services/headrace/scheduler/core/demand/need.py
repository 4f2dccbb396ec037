"""Workers that a load needs, by each thing of which a worker has so much and no more."""

import bisect
import math
from dataclasses import dataclass
from typing import Protocol

from headrace.scheduler.core.demand.arrivals import Flow
from headrace.scheduler.core.demand.measured_load import Capacity, MeasuredLoad

TAIL = 3.0
"""Times the mean that the 95th percentile of a wait is: its tail is about exponential, and ln 20 is 3.0."""
MAX_COUNT = 100_000


class Need(Protocol):
    """Thing that a load needs of workers."""

    @property
    def signal(self) -> str:
        """Name of the thing."""

    @property
    def text(self) -> str:
        """Figures, in words."""

    def count_at(self, use: float) -> int:
        """Returns the workers needed where each is used to such a share, at most."""


@dataclass(frozen=True, slots=True)
class SpaceNeed:
    """Need of something that requests occupy: places to run in, or KV blocks."""

    signal: str
    workers: float
    """Workers needed at full use."""
    text: str

    def count_at(self, use: float) -> int:
        """Returns the workers needed where each is used to such a share, at most."""
        return math.ceil(self.workers / use)


@dataclass(frozen=True, slots=True)
class PromptNeed:
    """Need of time to compute prompts."""

    flow: Flow
    waiting_token_count: float
    """Tokens that still wait when a new worker could be ready."""
    prefill_rate: float
    """Prompt tokens per second of a worker."""
    first_token_seconds: float
    """Time within which waiting prompts are to be computed."""
    clearing_seconds: float
    """Time within which the tokens that wait are to be computed, beside new ones."""

    @property
    def signal(self) -> str:
        """Name of the thing."""
        return "prompts"

    @property
    def text(self) -> str:
        """Figures, in words."""
        flow, waiting = self.flow, self.waiting_token_count
        late = f", {waiting:.0f} will be late" if waiting else ""
        return (
            f"{flow.request_rate:.2f} prompts of {flow.mean_tokens:.0f} tokens come each second{late}; "
            f"a worker computes {self.prefill_rate:.0f} tokens a second"
        )

    def count_at(self, use: float) -> int:
        """Returns the fewest workers that are used to such a share at most, and where 95 of 100 prompts wait for no
        longer than that share of the time of a first token: by the formula of Pollaczek and Khinchine for one queue
        whose server is as fast as all of them. Where even one prompt takes longer, waits are not looked at."""
        steady = self.flow.token_rate / self.prefill_rate
        clearing = self.waiting_token_count / self.prefill_rate / self.clearing_seconds
        if not steady + clearing:
            return 0
        enough = range(min(max(1, math.ceil(steady / use + clearing)), MAX_COUNT), MAX_COUNT)
        longest = use * self.first_token_seconds
        return enough.start + bisect.bisect_left(enough, True, key=lambda count: self._wait(count) <= longest)

    def _wait(self, count: int) -> float:
        """Predicts the 95th percentile of the seconds that a prompt waits for others."""
        speed = count * self.prefill_rate
        idle_share = 1 - self.flow.token_rate / speed
        if idle_share <= 0:
            return math.inf
        return TAIL * self.flow.request_rate * self.flow.mean_square / speed**2 / (2 * idle_share)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expectations of the time until a new worker would be ready."""

    flow: Flow
    mean_output: float
    """Output tokens of a request."""
    start_seconds: float
    first_token_seconds: float
    """Time within which waiting prompts are to be computed."""


def needs(load: MeasuredLoad, capacity: Capacity, outlook: Outlook) -> list[Need]:
    """Returns what is needed of each thing that was measured."""
    found: list[Need] = []
    if capacity.slot_count:
        found.append(_places(load, capacity, outlook))
    if capacity.block_count:
        text = f"{load.used_block_count} KV blocks are in use, and a worker has {capacity.block_count:.0f}"
        found.append(SpaceNeed("memory", load.used_block_count / capacity.block_count, text))
    if capacity.prefill_rate:
        found.append(_prompts(load, capacity.prefill_rate, outlook))
    return found


def _places(load: MeasuredLoad, capacity: Capacity, outlook: Outlook) -> Need:
    """Counts the requests that run or wait, or the requests to be expected (Little's law) where these are more."""
    open_count = load.waiting_count + load.running_count
    expected = outlook.flow.request_rate * outlook.mean_output * capacity.step_seconds
    what = f"{open_count} requests run or wait" if open_count >= expected else f"{expected:.0f} requests will run"
    text = f"{what}, and a worker runs {capacity.slot_count:.0f} at once"
    return SpaceNeed("requests", max(open_count, expected) / capacity.slot_count, text)


def _prompts(load: MeasuredLoad, prefill_rate: float, outlook: Outlook) -> Need:
    """Counts what comes, and what will be late when a new worker could be ready."""
    flow, seconds = outlook.flow, outlook.start_seconds
    speed = max(1, load.worker_count) * prefill_rate
    is_late = load.waiting_token_count > speed * outlook.first_token_seconds
    left = load.waiting_token_count + (flow.token_rate - load.worker_count * prefill_rate) * seconds
    return PromptNeed(
        flow=flow,
        waiting_token_count=max(0.0, left) if is_late else 0.0,
        prefill_rate=prefill_rate,
        first_token_seconds=outlook.first_token_seconds,
        # No new worker computes them sooner.
        clearing_seconds=max(outlook.first_token_seconds, seconds),
    )
