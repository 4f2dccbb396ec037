"""Keeps one process running."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, Unavailable
from headrace.lifecycle.cancel_and_wait import cancel_and_wait
from headrace.lifecycle.process_run import EXIT_BAD_START
from headrace.supervisor.freeze import AnswerPatience, until_frozen
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.running_process import RunningProcess
from headrace.supervisor.spawning.spawner import Spawner
from headrace.supervisor.system.process_identity import ProcessIdentity

State = Literal["starting", "ready", "restarting", "stopped"]
ReadyQuestion = Callable[[], "asyncio.Future[bool] | asyncio.Task[bool]"]
AliveQuestion = Callable[[], Awaitable[bool]]
BACKOFF_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
STABLE_SECONDS = 30.0
"""Seconds of life after which a process that dies is started again at once."""
PROBE_INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A planned process on this machine: its start, and how to tell whether it is ready and alive."""

    name: str
    start: ProcessStart
    is_ready: ReadyQuestion
    """Asks once whether it is ready."""
    answers: AliveQuestion
    """Asks once whether it is alive, for QUESTION_SECONDS at most."""
    address: Callable[[], str]
    model: str = ""
    stop_seconds: float = 2.0
    patience: AnswerPatience = field(default_factory=AnswerPatience)

    @property
    def log_path(self) -> Path:
        return self.start.log_path


class SupervisedProcess:
    """Starts a process, waits until it is ready, and restarts it whenever it ends until it is stopped."""

    def __init__(self, spec: LocalProcess, spawner: Spawner, on_change: Callable[[], None]) -> None:
        self.spec = spec
        self._spawner = spawner
        self.state: State = "starting"
        self.progress = ""
        """Last report of how far its start has come."""
        self.restarts = 0
        self.identity: ProcessIdentity | None = None
        """The process that runs, or ran last. None: none was started yet."""
        self.started: float | None = None
        """Time at which it was started, in seconds since 1970."""
        self.exit_code: int | None = None
        """Exit code of the run before; negative for a signal. None: it has not ended yet."""
        self.ready = asyncio.Event()
        self._on_change = on_change
        self._stopping = False
        self._is_replaced = False
        self._process: RunningProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return None if self.identity is None else self.identity.pid

    def start(self) -> "asyncio.Task[None]":
        self._task = asyncio.create_task(self._keep_running(), name=f"supervise-{self.spec.name}")
        return self._task

    async def wait_ready(self, deadline: Deadline) -> None:
        """Waits until the process is ready. Raises ConfigError when it refuses to start, Unavailable when it is not
        ready in time."""
        running = self._task or self.start()
        waiting = asyncio.create_task(self.ready.wait())
        try:
            await asyncio.wait({waiting, running}, timeout=deadline.remaining, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if running.done():
            running.result()
        if not self.ready.is_set():
            raise Unavailable(f"{self.spec.name} is not ready in time; its log: {self.spec.log_path}")

    async def stop(self, seconds: float | None = None) -> None:
        """Stops the process: SIGTERM, then SIGKILL after `seconds`, which are `stop_seconds` of its plan if unset."""
        self._stopping = True
        await self._terminate(self.spec.stop_seconds if seconds is None else seconds)
        if self._task is not None:
            await cancel_and_wait([self._task])
        self._set_state("stopped")

    async def replace(self, deadline: Deadline) -> None:
        """Stops the process, and waits until the next one runs as it is planned by now. Raises what `wait_ready`
        does."""
        self._is_replaced = True
        try:
            self.ready.clear()
            await self._terminate(self.spec.stop_seconds)
            if self._task is not None and self._task.done():
                # It has given up: it could not start as it was planned before.
                self.start()
            await self.wait_ready(deadline)
        finally:
            self._is_replaced = False

    async def _terminate(self, seconds: float) -> None:
        if self._probing is not None:
            # A process that is stopping may be silent meanwhile.
            self._probing.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            self.kill()

    def last_line(self) -> str:
        """Returns the last line of the log; empty if there is none."""
        return "".join(self.spec.log_path.read_text(errors="replace").splitlines()[-1:])

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _keep_running(self) -> None:
        failures = 0
        while not self._stopping:
            await asyncio.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
            started = time.monotonic()
            process = await self._spawn()
            self._probing = asyncio.create_task(self._probe(process.pid), name=f"probe-{self.spec.name}")
            code = await process.wait()
            self._probing.cancel()
            self.exit_code = code
            self.ready.clear()
            if self._is_stopping():
                return
            if self._is_replaced:
                self._is_replaced, failures = False, 0
                self._set_state("restarting")
                continue
            if code == EXIT_BAD_START and self.restarts == 0:
                raise ConfigError(self.last_line() or f"no message; see {self.spec.log_path}")
            failures = 0 if time.monotonic() - started > STABLE_SECONDS else failures + 1
            self.restarts += 1
            self._set_state("restarting")

    async def _spawn(self) -> RunningProcess:
        self._process = await self._spawner.spawn(self.spec.start)
        pid = self._process.pid
        self.identity = ProcessIdentity.of(pid) or ProcessIdentity(pid, "")
        self.started = time.time()
        self._on_change()
        return self._process

    async def _probe(self, pid: int) -> None:
        """Waits until the process is ready, then until it is frozen, and kills it: it is then started again."""
        while not await self.spec.is_ready():  # noqa: ASYNC110 - it is another process's event
            await asyncio.sleep(PROBE_INTERVAL)
        self.ready.set()
        self._set_state("ready")
        seconds = await until_frozen(self.spec.answers, pid, self.spec.patience)
        self._note(f"headrace: {self.spec.name} (pid {pid}) did not answer for {seconds:.1f} s: killed, to start again")
        self.kill()

    def _note(self, line: str) -> None:
        """Writes a line to the log of the process. A full disk does not keep it from being restarted."""
        with contextlib.suppress(OSError), self.spec.log_path.open("a") as log:
            log.write(f"{line}\n")

    def _is_stopping(self) -> bool:
        return self._stopping

    def _set_state(self, state: State) -> None:
        self.state = state
        self._on_change()
