"""The one thread that owns the engine, and the bridge between it and the event loop."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.engine import Engine
from headrace.engine.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.errors import HeadraceError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepReport:
    """What the engine did since the last report."""

    deltas: list[Delta]
    refusals: list[tuple[str, HeadraceError]]
    """Requests that the engine would not take or could not finish, by engine id."""
    admitted: list[str]
    """Requests that the engine took just before the step, by engine id."""
    start_time: float
    """When the step began. Unix seconds."""
    stats: EngineStats
    block_events: BlockEvents


@dataclass(frozen=True, slots=True)
class _Add:
    request: EngineRequest


@dataclass(frozen=True, slots=True)
class _Cancel:
    request_id: str


class _Stop:
    pass


_Command = _Add | _Cancel | _Stop


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
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, request: EngineRequest) -> None:
        self._commands.put(_Add(request))

    def cancel(self, request_id: str) -> None:
        self._commands.put(_Cancel(request_id))

    def stop(self, timeout: float) -> None:
        """Ends the thread after the step it is in. Waits at most `timeout` seconds."""
        self._commands.put(_Stop())
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while self._advance():
                pass
            self._engine.close()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the loop must hear of it
            _log.exception("the engine crashed")
            self._loop.call_soon_threadsafe(self._on_crash, error)

    def _advance(self) -> bool:
        """Takes in what was asked, runs a step, reports. False once stopped."""
        refusals: list[tuple[str, HeadraceError]] = []
        admitted: list[str] = []
        if not self._take_commands(refusals, admitted):
            return False
        start_time = time.time()
        deltas = self._step(refusals)
        events = self._engine.drain_block_events()
        report = StepReport(deltas, refusals, admitted, start_time, self._engine.stats(), events)
        self._loop.call_soon_threadsafe(self._on_report, report)
        return True

    def _step(self, refusals: list[tuple[str, HeadraceError]]) -> list[Delta]:
        """One engine step. An error that names its request ends that request alone."""
        if not self._engine.has_work():
            return []
        try:
            return self._engine.step()
        except HeadraceError as error:
            if "request_id" not in error.details:
                raise
            refusals.append((error.details["request_id"], error))
            return []

    def _take_commands(self, refusals: list[tuple[str, HeadraceError]], admitted: list[str]) -> bool:
        waits = not self._engine.has_work()
        while True:
            try:
                command = self._commands.get(block=waits)
            except queue.Empty:
                return True
            waits = False
            if isinstance(command, _Stop):
                return False
            if isinstance(command, _Cancel):
                self._engine.cancel(command.request_id)
                continue
            try:
                self._engine.add(command.request)
                admitted.append(command.request.request_id)
            except HeadraceError as error:
                refusals.append((command.request.request_id, error))
