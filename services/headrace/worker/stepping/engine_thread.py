"""Thread that owns the engine, and the bridge between it and the event loop."""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from headrace import failpoints
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.pace.step_pace import StepPace
from headrace.engine.residency.memory_recovery import MemoryRecovery, Recovered, no_memory
from headrace.errors import HeadraceError
from headrace.worker.stepping.canary import prove

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepReport:
    """Work of the engine since the last report."""

    deltas: list[Delta]
    refusals: list[tuple[str, HeadraceError]]
    """Requests that the engine refused or could not finish, by engine id."""
    admitted: list[str]
    """Requests that the engine took just before the step, by engine id."""
    taken_token_count: int
    """Tokens of all requests that the engine took or refused just before the step."""
    start_time: float
    """Time at which the step began. Unix seconds."""
    stats: EngineStats
    pace: StepPace
    block_events: BlockEvents


@dataclass(frozen=True, slots=True)
class _Add:
    request: EngineRequest


@dataclass(frozen=True, slots=True)
class _Cancel:
    request_id: str


@dataclass(frozen=True, slots=True)
class _Prove:
    outcome: "Future[None]"


@dataclass(frozen=True, slots=True)
class _Ask:
    function: Callable[[], Any]
    outcome: "Future[Any]"


class _Nudge:
    pass


class _Stop:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Busy:
    """Step that the engine is in, and the commands before it."""

    since: float
    """Time at which it began. Monotonic seconds."""
    read_count: int
    """Prompt tokens that wait; the step reads as many as fit."""
    pace: StepPace
    """Pace of steps as measured until the step began."""


@dataclass(slots=True)
class _Intake:
    """Outcome of the commands since the last step."""

    admitted: list[str] = field(default_factory=list)
    refusals: list[tuple[str, HeadraceError]] = field(default_factory=list)
    token_count: int = 0
    """Tokens of the requests that were admitted or refused."""


_Command = _Add | _Cancel | _Prove | _Ask | _Nudge | _Stop


class EngineThread:
    """Runs steps for as long as there is work, and sleeps on the command queue otherwise.

    `on_report` and `on_crash` are called on the event loop. After a crash the engine is not used again.
    """

    def __init__(
        self, engine: Engine, on_report: Callable[[StepReport], None], on_crash: Callable[[BaseException], None]
    ) -> None:
        self._engine = engine
        self._on_report = on_report
        self._on_crash = on_crash
        self.busy: Busy | None = None
        """Step that the engine is in. None while it sleeps; another object after every step."""
        self._stats = engine.stats()
        self._pace = StepPace()
        self._recovery = MemoryRecovery(engine.spec)
        self._open: set[str] = set()
        """Ids of the requests that the engine has."""
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def out_of_memory_count(self) -> int:
        """Times that memory ran out in a step."""
        return self._recovery.failure_count

    @property
    def pace(self) -> StepPace:
        """Pace of the steps so far."""
        return self._pace

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, request: EngineRequest) -> None:
        """Queues a request for the engine. A refusal comes with the next report."""
        self._commands.put(_Add(request))

    def cancel(self, request_id: str) -> None:
        """Drops a request before the next step."""
        self._commands.put(_Cancel(request_id))

    def nudge(self) -> None:
        """Has the thread report, because the engine changed without a step. From any thread."""
        self._commands.put(_Nudge())

    def ask(self, function: Callable[[], T]) -> "Future[T]":
        """Runs a function of the engine on its thread, after the commands before and between two steps. It must be
        quick: requests wait for it. The future has its result."""
        outcome: Future[T] = Future()
        self._commands.put(_Ask(function, outcome))
        return outcome

    async def call(self, function: Callable[[], T], timeout: float) -> T:
        """Runs a function as `ask` does, and returns its result. Raises what it raises, and TimeoutError after
        `timeout` seconds."""
        async with asyncio.timeout(timeout):
            return await asyncio.wrap_future(self.ask(function))

    async def prove(self, timeout: float) -> None:
        """Makes the engine, which must have no work, generate a token. Raises HeadraceError, or TimeoutError after
        `timeout` seconds."""
        outcome: Future[None] = Future()
        self._commands.put(_Prove(outcome))
        async with asyncio.timeout(timeout):
            await asyncio.wrap_future(outcome)

    def stop(self, timeout: float) -> None:
        """Ends the thread after the step it is in. Waits at most `timeout` seconds."""
        self._commands.put(_Stop())
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while self._advance():
                pass
            self._engine.close()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the loop must learn of it
            _log.exception("the engine crashed")
            self._loop.call_soon_threadsafe(self._on_crash, error)
        finally:
            self.busy = None

    def _advance(self) -> bool:
        """Obeys commands, runs a step and reports. Returns False once stopped."""
        intake = _Intake()
        if not self._take_commands(intake):
            return False
        start_time = time.time()
        self._note_busy(intake.token_count)
        deltas = self._step(intake)
        events = self._engine.drain_block_events()
        report = StepReport(
            deltas=deltas,
            refusals=intake.refusals,
            admitted=intake.admitted,
            taken_token_count=intake.token_count,
            start_time=start_time,
            stats=self._stats,
            pace=self._pace,
            block_events=events,
        )
        self._loop.call_soon_threadsafe(self._on_report, report)
        self._note_busy(0)
        return True

    def _step(self, intake: _Intake) -> list[Delta]:
        """Runs one step. An error that names its request ends that request alone, and want of memory none, or all."""
        try:
            failpoints.hit("engine.step")
            deltas = self._measured_step()
        except HeadraceError as error:
            if "request_id" not in error.details:
                raise
            self._refuse(error.details["request_id"], error, intake)
            return []
        except Exception as error:  # noqa: BLE001 - raised again, unless it says that memory ran out
            self._recover(error, intake)
            return []
        self._open.difference_update(delta.request_id for delta in deltas if delta.finish_reason is not None)
        self._recovery.note_success(self._engine)
        return deltas

    def _recover(self, error: Exception, intake: _Intake) -> None:
        """Continues after a step without enough memory. Refuses all requests where smaller steps do not help. Raises
        `error` where nothing does."""
        outcome = self._recovery.recover(self._engine, error)
        if outcome is Recovered.LOST:
            raise error
        if outcome is Recovered.REFUSES:
            for request_id in sorted(self._open):
                self._engine.cancel(request_id)
                self._refuse(request_id, no_memory(request_id), intake)

    def _refuse(self, request_id: str, error: HeadraceError, intake: _Intake) -> None:
        self._open.discard(request_id)
        intake.refusals.append((request_id, error))

    def _measured_step(self) -> list[Delta]:
        started = time.perf_counter()
        try:
            return self._engine.step(self._pace.times) if self._engine.has_work() else []
        finally:
            stats, pace = self._engine.stats(), replace(self._pace)
            pace.measure_step(self._stats, stats, time.perf_counter() - started)
            self._stats, self._pace = stats, pace

    def _take_commands(self, intake: _Intake) -> bool:
        """Obeys the commands since the last step, and waits for one if there is no work. Returns False once stopped."""
        command = self._pending_command() if self._engine.has_work() else self._awaited_command()
        while command is not None:
            if isinstance(command, _Stop):
                return False
            if self.busy is None:
                self._note_busy(0)
            self._obey(command, intake)
            command = self._pending_command()
        return True

    def _pending_command(self) -> "_Command | None":
        with contextlib.suppress(queue.Empty):
            return self._commands.get_nowait()
        return None

    def _awaited_command(self) -> "_Command":
        self.busy = None
        return self._commands.get()

    def _obey(self, command: _Add | _Cancel | _Prove | _Ask | _Nudge, intake: _Intake) -> None:
        if isinstance(command, _Cancel):
            self._engine.cancel(command.request_id)
            self._open.discard(command.request_id)
        elif isinstance(command, _Prove):
            self._prove(command.outcome)
        elif isinstance(command, _Ask):
            _answer(command)
        elif isinstance(command, _Add):
            self._add(command.request, intake)

    def _add(self, request: EngineRequest, intake: _Intake) -> None:
        intake.token_count += request.token_count
        try:
            self._engine.add(request)
            self._open.add(request.request_id)
            intake.admitted.append(request.request_id)
        except HeadraceError as error:
            intake.refusals.append((request.request_id, error))

    def _prove(self, outcome: "Future[None]") -> None:
        outcome.set_running_or_notify_cancel()
        try:
            prove(self._engine, self._measured_step)
            outcome.set_result(None)
        except Exception as error:  # noqa: BLE001 - whatever it was, the caller must learn of it
            outcome.set_exception(error)

    def _note_busy(self, new_token_count: int) -> None:
        self.busy = Busy(time.monotonic(), self._stats.waiting_token_count + new_token_count, self._pace)


def _answer(asked: _Ask) -> None:
    """Runs what was asked, unless its caller has given up."""
    if asked.outcome.set_running_or_notify_cancel():
        try:
            asked.outcome.set_result(asked.function())
        except Exception as error:  # noqa: BLE001 - whatever it was, the caller must learn of it
            asked.outcome.set_exception(error)
