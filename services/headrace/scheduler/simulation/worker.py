"""Worker in virtual time: the engine's batcher, with steps that take the time of a model of their cost."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.contract.request import Delta, EngineRequest, EngineStats
from headrace.engine.contract.request_check import check_request
from headrace.engine.engines.sim import SimConfig
from headrace.engine.pace.step_pace import StepPace
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.simulation.clock import VirtualClock

_SAMPLE = Sample(token_id=1)
"""Token of every output: simulated requests end by their length alone."""


class SimulatedWorker:
    """Accepts requests as a worker does: the engine takes them before its next step, and what the worker reports is
    from the end of the last one."""

    def __init__(
        self,
        name: str,
        model: str,
        config: SimConfig,
        price: float,
        clock: VirtualClock,
        on_step: Callable[["SimulatedWorker", list[Delta]], None],
        *,
        measures_pace: bool = True,
    ) -> None:
        """`price`: price of one hour. `on_step` gets the deltas of each step when it ends. `measures_pace`: see
        `SimulatedPlatform`."""
        self.name = name
        self.block_size = config.block_size
        """Tokens of a KV block."""
        self.busy_seconds = 0.0
        """Virtual seconds of all steps that have ended."""
        self._model = model
        self._config = config
        self._price = price
        self._clock = clock
        self._on_step = on_step
        self._spec = config.spec()
        self._batcher = Batcher(self._spec, prefix_cache=config.prefix_cache)
        self._stats = self._batcher.stats()
        self._pace = _pace_of(config, self._stats)
        self._measures_pace = measures_pace
        self._unread: dict[str, EngineRequest] = {}
        """Requests that the engine has not taken yet, by their id."""
        self._unread_token_count = 0
        self._taken_token_count = 0
        """Tokens of the requests that the engine took for the step that runs: the last step's stats lack them."""
        self._open: set[str] = set()
        self._stepping = False
        self._is_retiring = False
        self._version = 0

    @property
    def stats(self) -> EngineStats:
        """Load of the engine after its last step."""
        return self._stats

    @property
    def has_retired(self) -> bool:
        """Whether it was retired, and has ended all requests."""
        return self._is_retiring and not self._open

    def retire(self) -> None:
        """Says from now on that it leaves."""
        self._is_retiring = True

    def check(self, request: EngineRequest) -> None:
        """Raises InvalidRequest for a request that can never run here."""
        check_request(request, self._spec)

    def take(self, requests: Sequence[EngineRequest]) -> None:
        """Accepts requests, which the next step may compute."""
        for request in requests:
            self._unread[request.request_id] = request
            self._unread_token_count += request.token_count
            self._open.add(request.request_id)
        self._wake()

    def cancel(self, request_id: str) -> None:
        """Drops a request. An unknown one is ignored."""
        self._open.discard(request_id)
        unread = self._unread.pop(request_id, None)
        if unread is None:
            self._batcher.cancel(request_id)
        else:
            self._unread_token_count -= unread.token_count

    def held_block_count(self, hashes: Sequence[bytes]) -> int:
        """Counts the leading KV blocks of a prompt that its prefix cache holds."""
        return len(self._batcher.pool.find(hashes))

    def report(self) -> WorkerReport:
        """Returns the load as a worker reports it."""
        stats, config = self._stats, self._config
        self._version += 1
        return WorkerReport(
            worker_id=self.name,
            epoch=1,
            version=self._version,
            model=self._model,
            credit_count=0 if stats.waiting_count else max(0, config.max_running_count - len(self._open)),
            open_count=len(self._open),
            block_size=config.block_size,
            block_count=config.block_count,
            used_block_count=stats.used_block_count,
            running_count=stats.running_count,
            pausable_count=stats.pausable_count,
            waiting_token_count=stats.waiting_token_count + self._taken_token_count + self._unread_token_count,
            step_count=stats.step_count,
            computed_token_count=stats.prompt_token_count,
            prefill_rate=self._pace.prefill_rate,
            step_seconds=self._pace.step_seconds,
            step_times=self._pace.times,
            step_token_limit=config.max_step_token_count,
            max_step_seconds=config.max_step_seconds,
            hourly_price=self._price,
            draining=self._is_retiring,
        )

    def _wake(self) -> None:
        """Starts a step, unless one runs. All that comes at this very time is still part of it."""
        if not self._stepping:
            self._stepping = True
            self._clock.at(self._clock.now, self._begin_step)

    def _begin_step(self) -> None:
        for request in self._unread.values():
            self._batcher.add(request)
        self._unread.clear()
        self._taken_token_count, self._unread_token_count = self._unread_token_count, 0
        if not self._batcher.has_work():
            self._stepping = False
            return
        plan = self._batcher.plan(self._pace.times)
        seconds = self._config.step_seconds(plan)
        self._clock.at(self._clock.now + seconds, lambda: self._end_step(plan, seconds))

    def _end_step(self, plan: StepPlan, seconds: float) -> None:
        deltas = self._batcher.record(plan, _samples(plan))
        self.busy_seconds += seconds
        before, self._stats = self._stats, self._batcher.stats()
        self._taken_token_count = 0
        if self._measures_pace:
            self._pace.measure_step(before, self._stats, seconds)
        for delta in deltas:
            if delta.finish_reason is not None:
                self._open.discard(delta.request_id)
        self._on_step(self, deltas)
        self._begin_step()


def _samples(plan: StepPlan) -> dict[Chunk, Sample]:
    return {chunk: _SAMPLE for chunk in plan.chunks if chunk.is_sampled}


def _pace_of(config: SimConfig, nothing: EngineStats) -> StepPace:
    """Returns the pace of a worker that has served before: of a step full of prompts, and of one decode. `nothing`:
    the engine's load before its first step."""
    full_count = config.max_step_token_count
    full = replace(nothing, step_count=1, prompt_token_count=full_count)
    pace = StepPace(step_seconds=config.base_seconds + config.decode_seconds_per_sequence)
    pace.measure_step(nothing, full, config.base_seconds + full_count * config.prefill_seconds_per_token)
    return pace
