"""View of a platform where no person watches: in the log of systemd or of a container."""

import sys
import time

from headrace.cli.commands.up.live_view import GIVEN_UP, STOPPING
from headrace.cli.commands.up.memory_plan import MemoryPlan
from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.cli.output import console, outliving_readers
from headrace.supervisor.platform import Platform

PROGRESS_SECONDS = 10.0
"""Shortest time between two lines about the progress of one service."""


class LineView:
    """Prints a line for each service that becomes ready or is started again, and now and then one for its progress."""

    def __init__(self, page: ReadyPage) -> None:
        self._page = page
        self._states: dict[str, str] = {}
        self._progressed: dict[str, float] = {}
        self._was_ready = False
        self._is_stopping = False
        self._since = time.monotonic()

    def __enter__(self) -> None:
        console.print("Starting …")

    def __exit__(self, *_: object) -> None: ...

    def on_memory_plan(self, plan: MemoryPlan) -> None:
        console.print(plan.text(), soft_wrap=True, markup=False)

    def on_change(self, platform: Platform) -> None:
        if self._is_stopping:
            # What becomes ready now ends at once.
            return
        for process in platform.processes:
            name, state = process.spec.name, process.state
            if self._states.get(name) != state:
                self._states[name] = state
                if state in ("ready", "restarting"):
                    self._say(f"{name} {'is ready' if state == 'ready' else 'has ended, and is started again'}")
            if state == "starting" and process.progress and self._is_due(name):
                self._say(f"{name} {process.progress}")

    def on_ready(self, platform: Platform) -> None:
        self._was_ready = True
        self._page.print(platform.describe(), platform.models, in_background=False)

    def on_stopping(self) -> None:
        self._is_stopping = True
        console.print(STOPPING if self._was_ready else GIVEN_UP)

    def _say(self, text: str) -> None:
        with outliving_readers():
            sys.stdout.write(f"{time.monotonic() - self._since:6.1f} s  {text}\n")
            sys.stdout.flush()

    def _is_due(self, name: str) -> bool:
        now = time.monotonic()
        if now - self._progressed.get(name, 0.0) < PROGRESS_SECONDS:
            return False
        self._progressed[name] = now
        return True
