"""A child of this process, as `asyncio.subprocess.Process` has it."""

from typing import Protocol


class RunningProcess(Protocol):
    """A child that was started, whichever way."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal. None: it runs."""

    async def wait(self) -> int:
        """Waits until it has ended. Returns its exit code."""

    def terminate(self) -> None:
        """Sends SIGTERM. Raises ProcessLookupError when it has ended."""

    def kill(self) -> None:
        """Sends SIGKILL. Raises ProcessLookupError when it has ended."""
