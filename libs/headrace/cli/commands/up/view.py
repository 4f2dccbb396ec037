"""View of a platform that starts, runs and stops."""

from typing import Protocol

from headrace.cli.commands.up.memory_plan import MemoryPlan
from headrace.supervisor.platform import Platform


class View(Protocol):
    """Shows a platform. It is entered while the platform starts."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def on_memory_plan(self, plan: MemoryPlan) -> None:
        """Shows what each part of the platform gets of its memory, before anything starts."""

    def on_change(self, platform: Platform) -> None:
        """Shows that a service has another state, or came further."""

    def on_ready(self, platform: Platform) -> None:
        """Shows that all services are ready."""

    def on_stopping(self) -> None:
        """Shows that the platform stops."""
