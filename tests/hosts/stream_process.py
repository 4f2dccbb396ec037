"""Streams from a host of clients, through gateways of a platform, for as long as a test wants them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.hosts.network.namespace import Namespace
from tests.images import streams

POLL_SECONDS = 0.05


class StreamProcess:
    """Runs so many streams at any time."""

    def __init__(
        self,
        folder: Path,
        clients: Namespace,
        addresses: Sequence[str],
        count: int,
        tokens: int,
        resume_seconds: float = 0.0,
    ) -> None:
        """`resume_seconds`: time for which a stream whose connection breaks is resumed."""
        self._folder = folder
        folder.mkdir()
        (folder / "addresses").write_text("\n".join(addresses))
        command = [*clients.prefix, sys.executable, streams.__file__, str(folder), str(count), str(tokens)]
        command.append(str(resume_seconds))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    async def begun(self, seconds: float) -> None:
        """Waits until the answers of a quiet platform are known. Raises TimeoutError."""
        await self._until("begun", seconds)

    def stop(self) -> None:
        """Stops starting streams; running ones finish."""
        (self._folder / "stop").touch()

    async def end(self, seconds: float) -> dict[str, Any]:
        """Lets the last streams end. Returns how many came to which end, and what was wrong. Raises TimeoutError."""
        self.stop()
        await self._until("results.json", seconds)
        self._process.wait(10)
        found: dict[str, Any] = json.loads((self._folder / "results.json").read_text())
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    async def _until(self, name: str, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not (self._folder / name).exists():
                assert self._process.poll() is None or (self._folder / name).exists(), self._process.communicate()
                await asyncio.sleep(POLL_SECONDS)
