"""Ends a process whose engine hangs: it would look idle and attract every request."""

import asyncio
import faulthandler
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.contract.engine import EngineSpec
from headrace.worker.stepping.engine_thread import Busy, EngineThread

INTERVAL = 0.1
MARGIN = 20.0
"""Factor by which a step may exceed its expected time."""
EXIT_HUNG = 70
"""sysexits.h EX_SOFTWARE: starting again helps."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on the time of a step."""

    step_seconds: float
    """Seconds that a step may take at least, however short it was expected to be."""
    first_seconds: float
    """Seconds that a step may take when nothing like it was measured yet."""


class Watchdog:
    """Watches the step that the engine thread is in. Time for which the watchdog itself could not run does not
    count."""

    def __init__(
        self, thread: EngineThread, spec: EngineSpec, patience: Patience, on_hang: Callable[[str], None]
    ) -> None:
        self._thread = thread
        self._most_tokens = spec.max_step_token_count if spec.block_count else spec.max_model_length
        """Maximum number of prompt tokens that one step reads. A model without blocks reads each input whole."""
        self._patience = patience
        self._on_hang = on_hang

    async def watch(self) -> None:
        """Watches until the engine hangs, then calls `on_hang` with the reason."""
        busy: Busy | None = None
        forgiven = 0.0
        while True:
            before = time.monotonic()
            await asyncio.sleep(INTERVAL)
            now = time.monotonic()
            if self._thread.busy is not busy:
                busy, forgiven = self._thread.busy, 0.0
            forgiven += now - before - INTERVAL
            if busy is not None and now - busy.since - forgiven > self.bound(busy):
                seconds = now - busy.since
                self._on_hang(f"the engine is in one step for {seconds:.1f} s, allowed are {self.bound(busy):.1f} s")
                return

    def bound(self, busy: Busy) -> float:
        """Returns the seconds that a step may take."""
        expected = busy.pace.predict(min(busy.read_count, self._most_tokens))
        return self._patience.first_seconds if expected is None else max(self._patience.step_seconds, MARGIN * expected)


def exit_hung(reason: str) -> None:
    """Logs the reason and where every thread is, and ends the process: gateways see it at once and move its
    requests."""
    _log.critical("exiting because the engine hangs", extra={"reason": reason})
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    os._exit(EXIT_HUNG)
