"""Streams from a container beside the platform's: what a client sees that is no process of the machine itself."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.images import streams
from tests.images.platform import NETWORK
from tests.images.podman import logs, podman
from tests.images.pods import USER

NAME = "headrace-images-streams"
END_SECONDS = 300.0


class StreamingContainer:
    """Runs so many streams at any time."""

    def __init__(self, image: str, addresses: Sequence[str], count: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-streams-"))
        os.chown(self._folder, USER, USER)
        self.call(addresses)
        script = Path(streams.__file__)
        mounts = ("--volume", f"{self._folder}:/streams", "--volume", f"{script}:/streams.py:ro")
        podman("rm", "--force", NAME, check=False)
        command = ("--entrypoint", "python", image, "/streams.py", "/streams", str(count))
        podman("run", "--detach", "--name", NAME, "--network", NETWORK, *mounts, *command)

    def call(self, addresses: Sequence[str]) -> None:
        """Has new streams go to these gateways."""
        made = self._folder / "made"
        made.write_text("\n".join(addresses))
        made.rename(self._folder / "addresses")

    def end(self) -> dict[str, Any]:
        """Waits for the last streams. Returns how many came to which end, and what was wrong."""
        (self._folder / "stop").touch()
        deadline = time.monotonic() + END_SECONDS
        results = self._folder / "results.json"
        while not results.exists():
            assert time.monotonic() < deadline, logs(NAME)
            time.sleep(0.2)
        time.sleep(0.2)
        found: dict[str, Any] = json.loads(results.read_text())
        podman("rm", "--force", NAME)
        shutil.rmtree(self._folder)
        return found
