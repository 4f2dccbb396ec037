"""View of a platform for programs."""

from typing import Any

from headrace.cli.commands.up.memory_plan import MemoryPlan
from headrace.cli.key_choice import KeyChoice
from headrace.cli.output import outliving_readers, print_json
from headrace.supervisor.platform import Platform


class JsonView:
    """Prints one JSON object per line. A reader that leaves does not end the platform."""

    def __init__(self, keys: KeyChoice) -> None:
        self._keys = keys
        self._states: dict[str, str] = {}
        self._progress: dict[str, str] = {}

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def on_memory_plan(self, plan: MemoryPlan) -> None:
        self._tell({"event": "memory", "text": plan.text()})

    def on_change(self, platform: Platform) -> None:
        for process in platform.processes:
            name, state = process.spec.name, process.state
            if self._states.get(name) != state:
                self._states[name] = state
                self._tell({"event": "service", "name": name, "state": state, "pid": process.pid})
            if process.progress != self._progress.get(name, ""):
                self._progress[name] = process.progress
                self._tell({"event": "progress", "name": name, "text": process.progress})

    def on_ready(self, platform: Platform) -> None:
        keys = {} if self._keys.path is None else {"keys": self._keys.count}
        self._tell({"event": "ready"} | platform.describe() | keys)

    def on_stopping(self) -> None:
        self._tell({"event": "stopping"})

    @staticmethod
    def _tell(event: dict[str, Any]) -> None:
        with outliving_readers():
            print_json(event)
