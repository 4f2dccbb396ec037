"""The requests that wait for one model, in the order in which they should run.

Sequences that had a place and lost it go first: somebody is reading them already. Then class (realtime, interactive,
batch); within a class the tenant that was served least, counted in tokens (virtual token counter: Sheng et al.,
Fairness in Serving Large Language Models, 2024); within a tenant the earliest deadline.
"""

import asyncio
import heapq
import itertools
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field

from headrace.rpc.deadline import Deadline
from headrace.v1.generation_pb2 import PriorityClass
from headrace.v1.scheduler_pb2 import SubmitRequest, SubmitResponse

_RANKS: dict[int, int] = {
    PriorityClass.PRIORITY_CLASS_REALTIME: 0,
    PriorityClass.PRIORITY_CLASS_INTERACTIVE: 1,
    PriorityClass.PRIORITY_CLASS_UNSPECIFIED: 1,
    PriorityClass.PRIORITY_CLASS_BATCH: 2,
}
_RESUMED_RANK = -1
MAX_REMEMBERED_TENANTS = 10_000


@dataclass(slots=True, eq=False)
class Pending:
    """One waiting request. Resolving `placement` takes it out of the queue."""

    request: SubmitRequest
    deadline: Deadline
    arrival: float
    """Monotonic seconds."""
    placement: "asyncio.Future[SubmitResponse]"
    charged: bool = False
    """Its tenant has paid for it. Waiting again costs nothing."""

    @property
    def resumes(self) -> bool:
        """It had a place before, and its tenant was charged for it then."""
        return bool(self.request.excluded_worker_ids or self.request.generation.output_token_ids)

    @property
    def rank(self) -> int:
        if self.resumes:
            return _RESUMED_RANK
        return _RANKS.get(self.request.priority_class, 1)

    @property
    def prompt_token_count(self) -> int:
        generation = self.request.generation
        return len(generation.prompt_token_ids) + len(generation.output_token_ids)

    @property
    def cost(self) -> int:
        """Tokens that its tenant is charged: what it sends and what it may get."""
        return self.prompt_token_count + self.request.generation.sampling_params.max_token_count

    @property
    def excluded(self) -> frozenset[str]:
        return frozenset(self.request.excluded_worker_ids)


@dataclass(slots=True)
class _TenantLine:
    """The requests of one tenant in one class, earliest deadline first."""

    heap: list[tuple[float, int, Pending]] = field(default_factory=list)

    def first(self) -> Pending | None:
        """The next request that still waits; drops those whose caller is gone."""
        while self.heap and self.heap[0][2].placement.done():
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None


class ModelQueue:
    """Adds at the end of the right line, takes from the front."""

    def __init__(self) -> None:
        self._lines: defaultdict[int, dict[str, _TenantLine]] = defaultdict(dict)
        self._served: OrderedDict[str, int] = OrderedDict()
        self._numbers = itertools.count()
        self._waiting: set[Pending] = set()
        self.arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest_arrival(self) -> float | None:
        return min((pending.arrival for pending in self._waiting), default=None)

    @property
    def members(self) -> list[Pending]:
        return list(self._waiting)

    def add(self, pending: Pending) -> None:
        """Queues a request until it is taken or its placement is resolved. One whose caller is gone stays out."""
        if pending.placement.done():
            return
        tenant = pending.request.tenant
        if not any(tenant in lines for lines in self._lines.values()):
            self._level_up(tenant)
        line = self._lines[pending.rank].setdefault(tenant, _TenantLine())
        heapq.heappush(line.heap, (pending.deadline.at, next(self._numbers), pending))
        self._waiting.add(pending)
        pending.placement.add_done_callback(lambda _: self._waiting.discard(pending))
        self.arrived.set()

    def take(self, max_count: int, max_token_count: int) -> list[Pending]:
        """Removes the next batch. A prompt larger than the token budget comes alone."""
        batch: list[Pending] = []
        token_count = 0
        while len(batch) < max_count and (pending := self._peek()) is not None:
            token_count += pending.prompt_token_count
            if batch and token_count > max_token_count:
                break
            self._remove(pending)
            batch.append(pending)
        if self._peek() is None:
            # Those who left are taken off `_waiting` by a callback, which runs only after whoever takes has suspended:
            # `arrived` must not wait for it.
            self._waiting.clear()
            self.arrived.clear()
        return batch

    def _peek(self) -> Pending | None:
        for rank in sorted(self._lines):
            lines = self._lines[rank]
            for tenant in [tenant for tenant, line in lines.items() if line.first() is None]:
                del lines[tenant]
            if lines:
                return lines[min(lines, key=lambda tenant: self._served.get(tenant, 0))].first()
        return None

    def _remove(self, pending: Pending) -> None:
        tenant = pending.request.tenant
        heapq.heappop(self._lines[pending.rank][tenant].heap)
        self._waiting.discard(pending)
        if not (pending.charged or pending.resumes):
            self._served[tenant] = self._served.get(tenant, 0) + pending.cost
        pending.charged = True

    def _level_up(self, tenant: str) -> None:
        """A tenant that comes back has no claim to the time it was away."""
        active = {name for lines in self._lines.values() for name in lines}
        floor = min((self._served.get(name, 0) for name in active), default=self._served.get(tenant, 0))
        self._served[tenant] = max(self._served.get(tenant, 0), floor)
        self._served.move_to_end(tenant)
        while len(self._served) > MAX_REMEMBERED_TENANTS:
            self._served.popitem(last=False)
