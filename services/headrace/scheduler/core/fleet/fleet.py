"""Index of the workers of one model: finds the least loaded ones without looking at all."""

import heapq
from collections.abc import Collection, Iterator

from headrace.scheduler.core.fleet.worker import Worker, WorkerReport

SILENCE_SECONDS = 1.5
"""A worker that said nothing for this long gets no requests."""
FORGET_SECONDS = 600.0
"""A worker that said nothing for this long is forgotten."""
MASS_SILENCE_SHARE = 0.5
MASS_SILENCE_COUNT = 3
"""Smallest number of workers whose silence at the same time is blamed on this process; see also MASS_SILENCE_SHARE."""
MUCH_FASTER = 2.0
"""Factor by which another worker must read prompts faster to be kept free instead. Measured rates of equal workers
differ with their traffic, and the other one has to finish its batch work first."""

_Entry = tuple[float, int, str]
"""Pressure of a worker, its stamp when the entry was made, and its id."""
_Kind = tuple[bool, float]
"""Whether workers compute prompts for others, and their price."""


class Fleet:
    """Keeps, for each adapter asked for and each kind of worker, a heap of workers by pressure. Old entries are dropped
    when they come to the top."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self._heaps: dict[str, dict[_Kind, list[_Entry]]] = {"": {}}
        self._fastest: dict[_Kind, WorkerReport] = {}
        """Newest report of the worker that reads prompts fastest, of all with a measured pace."""
        self._prefill_count = 0
        self._load = 0
        self.capacity = 0
        """Requests that all workers together can hold."""
        self.reserved = ""
        """The worker that is kept free of batch work while there are realtime requests. Empty: there is only one."""
        self._heard_from = 0.0
        """Time before which silence does not count."""

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def mean_load(self) -> float:
        return self._load / max(1, len(self.workers) - self._prefill_count)

    @property
    def has_prefill(self) -> bool:
        """Whether some worker computes prompts for others."""
        return self._prefill_count > 0

    def has_decoder(self, adapter: str, now: float) -> bool:
        """Whether some worker that has the adapter runs whole requests as its part, and may get some. Costs O(workers),
        but little where most do."""
        return any(
            worker.takes_any and worker.has_adapter(adapter) and self.hears(worker, now) and not worker.is_stalled(now)
            for worker in self.workers.values()
            if not worker.report.is_prefill
        )

    def take_report(self, report: WorkerReport, answers: bool, now: float) -> None:
        """Updates a worker by its report, unless a newer one is known."""
        worker = self.workers.get(report.worker_id)
        if worker is None or worker.report.epoch != report.epoch:
            self._remove(report.worker_id)
            worker = self.workers[report.worker_id] = Worker(report, last_heard=now, last_progress=now)
            self._load += worker.load
            self.capacity += _capacity(report)
            self._prefill_count += report.is_prefill
        else:
            worker.last_heard = now
            worker.suspect = worker.suspect and not answers
            if report.version > worker.report.version:
                self._load += report.open_count - worker.report.open_count
                self.capacity += _capacity(report) - _capacity(worker.report)
                moved = report.step_count != worker.report.step_count
                if moved or not (report.running_count or report.waiting_token_count):
                    worker.last_progress = now
                worker.take(report)
        self._compare(worker)
        self.reindex(worker)

    def remove(self, worker_id: str, epoch: int) -> None:
        """Forgets an incarnation of a worker."""
        worker = self.workers.get(worker_id)
        if worker is not None and worker.report.epoch == epoch:
            self._remove(worker_id)

    def suspect(self, worker_id: str, epoch: int) -> None:
        """Keeps requests from a worker until it has answered a dispatch."""
        worker = self.workers.get(worker_id)
        if worker is not None and worker.report.epoch == epoch:
            worker.suspect = True

    def reindex(self, worker: Worker) -> None:
        """Moves a worker whose load changed to its new place in the index."""
        worker.stamp += 1
        if not (worker.free_count or worker.report.pausable_count):
            return
        for adapter, heaps in self._heaps.items():
            if worker.has_adapter(adapter):
                heap = heaps.setdefault(_kind(worker.report), [])
                heapq.heappush(heap, (worker.pressure, worker.stamp, worker.worker_id))
                if len(heap) > 4 * len(self.workers) + 16:
                    heap[:] = [entry for entry in heap if self._is_current(entry)]
                    heapq.heapify(heap)

    def add_load(self, count: int) -> None:
        """Counts requests that are in flight to a worker, or no longer are."""
        self._load += count

    def least_loaded(self, adapter: str, count: int) -> Iterator[Worker]:
        """Yields, for each part and price, the `count` workers under the least pressure that have the adapter."""
        for heap in self._heaps_for(adapter).values():
            taken: list[_Entry] = []
            while heap and len(taken) < count:
                entry = heapq.heappop(heap)
                if self._is_current(entry):
                    taken.append(entry)
            for entry in taken:
                heapq.heappush(heap, entry)
                yield self.workers[entry[2]]

    def has_idle(self) -> bool:
        """Whether some worker has nothing to do."""
        return any(worker.idle and not worker.report.is_prefill for worker in self.least_loaded("", 1))

    def has_adapter(self, adapter: str) -> bool:
        """Whether any worker has the adapter. Costs O(workers)."""
        return any(worker.has_adapter(adapter) for worker in self.workers.values())

    def hears(self, worker: Worker, now: float) -> bool:
        """Whether a worker reported lately."""
        return now - max(worker.last_heard, self._heard_from) <= SILENCE_SECONDS

    def forgive_silence(self, now: float) -> None:
        """Starts every worker's silence from now: this process was not listening."""
        self._heard_from = now

    def look_around(self, now: float) -> bool:
        """Forgets workers that were silent for long, and returns whether any other is alive. Costs O(workers)."""
        for worker_id in [name for name, worker in self.workers.items() if now - worker.last_heard > FORGET_SECONDS]:
            self._remove(worker_id)
        silent = [worker for worker in self.workers.values() if not self.hears(worker, now)]
        fresh = [worker for worker in silent if now - worker.last_heard < 2 * SILENCE_SECONDS]
        if len(fresh) >= MASS_SILENCE_COUNT and len(fresh) >= MASS_SILENCE_SHARE * len(self.workers):
            self.forgive_silence(now)
            return True
        return len(silent) < len(self.workers)

    def choose_reserved(self) -> None:
        """Picks the fastest worker to be kept free of batch work, and stays with it while no other is much faster.
        Costs O(workers)."""
        usual = {name: worker for name, worker in self.workers.items() if not worker.report.is_prefill}
        if len(usual) < 2:
            self.reserved = ""
            return
        fastest = min(usual.values(), key=lambda worker: (-worker.prefill_rate, worker.worker_id))
        kept = usual.get(self.reserved)
        if kept is None or fastest.prefill_rate > MUCH_FASTER * kept.prefill_rate:
            self.reserved = fastest.worker_id

    def _heaps_for(self, adapter: str) -> dict[_Kind, list[_Entry]]:
        heaps = self._heaps.get(adapter)
        if heaps is None:
            heaps = self._heaps[adapter] = {}
            for worker in self.workers.values():
                if worker.has_adapter(adapter) and (worker.free_count or worker.report.pausable_count):
                    entry = (worker.pressure, worker.stamp, worker.worker_id)
                    heapq.heappush(heaps.setdefault(_kind(worker.report), []), entry)
        return heaps

    def keep_adapters(self, names: Collection[str]) -> None:
        """Drops the index of every adapter that no request uses at the moment."""
        self._heaps = {name: heaps for name, heaps in self._heaps.items() if not name or name in names}

    def _compare(self, worker: Worker) -> None:
        """Remembers a worker that is the fastest of its kind, by which the others are judged that have not measured
        their pace: all of them at once when it is the first, else each with its next report."""
        report, kind = worker.report, _kind(worker.report)
        fastest = self._fastest.get(kind)
        if report.has_measured_pace and (
            fastest is None or fastest.worker_id == report.worker_id or report.prefill_rate > fastest.prefill_rate
        ):
            self._fastest[kind] = report
            for other in self.workers.values() if fastest is None else ():
                other.like = report if _kind(other.report) == kind else other.like
        worker.like = self._fastest.get(kind)

    def _remove(self, worker_id: str) -> None:
        worker = self.workers.pop(worker_id, None)
        if worker is not None:
            self._load -= worker.load
            self.capacity -= _capacity(worker.report)
            self._prefill_count -= worker.report.is_prefill
            self._replace_fastest(worker)

    def _replace_fastest(self, gone: Worker) -> None:
        """Remembers the fastest of the others in the place of a worker that is gone, where one has measured its pace.
        Otherwise its own is what is known of its kind, and of itself when it comes back."""
        kind = _kind(gone.report)
        fastest = self._fastest.get(kind)
        if fastest is not None and fastest.worker_id == gone.worker_id:
            reports = [worker.report for worker in self.workers.values() if _kind(worker.report) == kind]
            measured = [report for report in reports if report.has_measured_pace]
            self._fastest[kind] = max(measured, key=lambda report: report.prefill_rate, default=fastest)

    def _is_current(self, entry: _Entry) -> bool:
        worker = self.workers.get(entry[2])
        return worker is not None and worker.stamp == entry[1]


def _capacity(report: WorkerReport) -> int:
    return 0 if report.is_prefill else report.open_count + report.credit_count


def _kind(report: WorkerReport) -> _Kind:
    return report.is_prefill, report.hourly_price
