"""Tasks that a service cannot do without."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from headrace.domain.deadline import Deadline
from headrace.errors import TaskDied

CLOSE_SECONDS = 2.0
CANCEL_INTERVAL = 0.1

_log = logging.getLogger(__name__)


class Background:
    """Watches tasks to their end. The first that fails ends the service: otherwise it would go unnoticed."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._died = asyncio.Event()
        self._failure: TaskDied | None = None

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Runs `work` until it ends, or until closed."""
        return self.watch(asyncio.create_task(work, name=name))

    def watch(self, task: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
        """Watches a task that runs already. It may end or be cancelled, but not fail."""
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def failure(self) -> TaskDied:
        """Waits for the first task that fails. Returns the error that says which and why."""
        while self._failure is None:
            await self._died.wait()
        return self._failure

    async def close(self) -> None:
        """Cancels the tasks that still run, and waits for them for at most CLOSE_SECONDS."""
        deadline = Deadline.after(CLOSE_SECONDS)
        while self._tasks and not deadline.expired:
            for task in self._tasks:
                # Repeated, because a library may swallow a cancellation that coincides with another end of its wait.
                task.cancel()
            await asyncio.wait(set(self._tasks), timeout=CANCEL_INTERVAL)

    def _on_end(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.critical("a background task failed", extra={"task": task.get_name()}, exc_info=error)
        if self._failure is None:
            name = task.get_name()
            self._failure = TaskDied(f"the task {name} failed with {error!r}: the process ends, to be started again")
            self._died.set()
