"""Engine of one of several models of a process. The model itself may sleep, or not be in memory at all."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from headrace import failpoints
from headrace.domain.step_times import StepTimes
from headrace.engine.contract.engine import Engine, EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.residency.memory_recovery import MemoryRecovery, Recovered, no_memory
from headrace.engine.residency.stats_sum import NO_STATS, continued
from headrace.engine.residency.step_turn import StepTurn
from headrace.errors.tree import HeadraceError

WAIT_SECONDS = 0.1
"""Seconds that a step waits for its turn, or for the model to wake. Commands to the engine wait as long."""


class ManagedEngine:
    """Serves the Protocol of Engine to one thread, whatever the model manager does with the model meanwhile.

    Requests wait here while the model is not awake. The model manager, in a separate thread, takes the engine away with
    `detach`, and gives it back with `attach`: in between it alone may use it.
    """

    def __init__(
        self, spec: EngineSpec, turn: StepTurn, on_want: Callable[[], None], is_sound: Callable[[], bool]
    ) -> None:
        """`on_want` is called when a request waits for the model, or the engine is lost, from any thread. `is_sound`:
        whether waiting counts as progress, because the model manager is healthy."""
        self._spec = spec
        self._turn = turn
        self._on_want = on_want
        self._is_sound = is_sound
        self._attached = threading.Condition()
        self._engine: Engine | None = None
        """Engine while it is attached."""
        self._recovery = MemoryRecovery(spec)
        self._queue: dict[str, EngineRequest] = {}
        """Requests that wait for the model, oldest first."""
        self._begun: set[str] = set()
        """Requests that the engine has, wherever it is."""
        self._cancelled: list[str] = []
        """Requests to drop as soon as the engine is attached again."""
        self._failures: deque[HeadraceError] = deque()
        self._stored: list[bytes] = []
        self._removed: list[bytes] = []
        self._past = NO_STATS
        """Counts of earlier engines of the model."""
        self._last = NO_STATS
        """Stats of the engine when it was last attached."""
        self._wait_count = 0
        self.waiting_since: float | None = None
        """Monotonic time since which a request waits for the model."""
        self.used_time = 0.0
        """Monotonic time of the last step."""
        self.is_draining = False
        """Whether new requests wait, so that the model can leave."""
        self.is_lost = False
        """Whether memory ran out so badly that the engine has to be dropped."""

    @property
    def out_of_memory_count(self) -> int:
        """Times that memory ran out in a step."""
        return self._recovery.failure_count

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    @property
    def is_busy(self) -> bool:
        """Whether requests began and have not ended."""
        return bool(self._begun)

    def add(self, request: EngineRequest) -> None:
        """Queues a request. While the model is awake, raises InvalidRequest as its engine does; otherwise the step that
        hands it over does."""
        with self._attached:
            is_open = self._engine is not None and not self.is_draining and not self._queue
            if is_open and self._engine is not None:
                self._engine.add(request)
                self._begun.add(request.request_id)
            else:
                self._queue[request.request_id] = request
                self._note_waiting()
        if not is_open:
            self._on_want()

    def cancel(self, request_id: str) -> None:
        with self._attached:
            self._queue.pop(request_id, None)
            if request_id in self._begun:
                self._begun.discard(request_id)
                if self._engine is None:
                    self._cancelled.append(request_id)
                else:
                    self._engine.cancel(request_id)
            self._note_waiting()

    def has_work(self) -> bool:
        return bool(self._begun or self._queue or self._failures)

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        """Runs a step of the model, or waits a moment for it. Raises as Protocol says, and Overloaded, whose details
        name the request, where memory ran out."""
        if not self._await_engine():
            return self._told()
        with self._turn.taken(WAIT_SECONDS) as is_ours, self._attached:
            self._release()
            if self._failures or not is_ours or self._engine is None or not self._begun:
                return self._told()
            self.used_time = time.monotonic()
            deltas = self._run(self._engine, times)
        if self.is_lost:
            self._on_want()
        return deltas

    def stats(self) -> EngineStats:
        with self._attached:
            stats = self._last if self._engine is None else self._engine.stats()
            queued = sum(request.token_count for request in self._queue.values())
            return replace(
                continued(self._past, stats),
                waiting_token_count=stats.waiting_token_count + queued,
                wait_count=self._wait_count,
            )

    def drain_block_events(self) -> BlockEvents:
        with self._attached:
            if self._engine is not None:
                self._keep_events(self._engine)
            events = BlockEvents(tuple(self._stored), tuple(self._removed))
            self._stored, self._removed = [], []
            return events

    def close(self) -> None:
        """Closes the engine, if it is attached."""
        with self._attached:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def attach(self, engine: Engine) -> None:
        """Gives the thread that steps an engine which is awake, and the engine the requests that waited: the model is
        busy from now on, and not one that could leave again."""
        with self._attached:
            for request_id in self._cancelled:
                engine.cancel(request_id)
            self._cancelled.clear()
            self._engine = engine
            self.is_draining = self.is_lost = False
            self._release()
            self._attached.notify_all()

    def detach(self, *, if_idle: bool = False) -> Engine | None:
        """Takes the engine away once the step that it is in is over. None: there is none; or, `if_idle`, it has
        requests."""
        with self._attached:
            if if_idle and self._begun:
                return None
            engine, self._engine = self._engine, None
            if engine is not None:
                self._keep_events(engine)
                self._last = replace(engine.stats(), running_count=0, waiting_count=0, used_block_count=0)
            self._note_waiting()
            return engine

    def forget(self) -> None:
        """Notes that the engine, which was detached, is gone, and the requests in it with it."""
        with self._attached:
            self._past = continued(self._past, self._last)
            self._last = NO_STATS
            self._begun.clear()
            self._cancelled.clear()
            self._note_waiting()

    def lose_begun(self) -> None:
        """Refuses the requests that began in an engine which could not be brought back. Waiting requests are kept."""
        with self._attached:
            self._failures.extend(no_memory(request_id) for request_id in self._begun)
        self.forget()

    def collect(self, engine: Engine) -> None:
        """Takes in block events of the engine that came while it was detached."""
        with self._attached:
            self._keep_events(engine)

    def refuse(self, error: Callable[[str], HeadraceError]) -> None:
        """Ends all requests. `error` makes the error of one by its id."""
        with self._attached:
            self._refuse_all(error)
            self._note_waiting()

    def _told(self) -> list[Delta]:
        """Raises the oldest failure that has not been reported yet. Otherwise counts that nothing could be done."""
        if self._failures:
            raise self._failures.popleft()
        self._wait_count += self._is_sound()
        return []

    def _await_engine(self) -> bool:
        """Waits a moment for the engine, unless there is something to tell. Returns whether it is there."""
        with self._attached:
            if self._engine is None and not self._failures:
                self._attached.wait(WAIT_SECONDS)
            return self._engine is not None

    def _release(self) -> None:
        """Hands the requests that waited to the engine. One that it refuses ends."""
        if self._engine is None or self.is_draining:
            self._note_waiting()
            return
        for request in self._queue.values():
            try:
                self._engine.add(request)
                self._begun.add(request.request_id)
            except HeadraceError as error:
                error.details["request_id"] = request.request_id
                self._failures.append(error)
        self._queue.clear()
        self._note_waiting()

    def _run(self, engine: Engine, times: StepTimes | None) -> list[Delta]:
        try:
            failpoints.hit("residency.step")
            deltas = engine.step(times)
        except HeadraceError as error:
            self._begun.discard(error.details.get("request_id", ""))
            raise
        except Exception as error:  # noqa: BLE001 - raised again, unless it says that memory ran out
            self._recover(engine, error)
            return []
        self._begun.difference_update(delta.request_id for delta in deltas if delta.finish_reason is not None)
        self._recovery.note_success(engine)
        return deltas

    def _recover(self, engine: Engine, error: Exception) -> None:
        """Continues after a step without enough memory, or refuses all requests."""
        outcome = self._recovery.recover(engine, error)
        if outcome is Recovered.GOES_ON:
            return
        self.is_lost = outcome is Recovered.LOST
        if not self.is_lost:
            for request_id in self._begun:
                engine.cancel(request_id)
        self._refuse_all(no_memory)

    def _refuse_all(self, error: Callable[[str], HeadraceError]) -> None:
        self._failures.extend(error(request_id) for request_id in (*self._begun, *self._queue))
        self._begun.clear()
        self._queue.clear()

    def _keep_events(self, engine: Engine) -> None:
        events = engine.drain_block_events()
        self._stored += events.stored
        self._removed += events.removed

    def _note_waiting(self) -> None:
        waits = bool(self._queue) or (self._engine is None and bool(self._begun))
        self.waiting_since = None if not waits else self.waiting_since or time.monotonic()
