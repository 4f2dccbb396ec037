"""While the only gateway starts again, clients wait and are not refused."""

import os
import signal
import threading
import time

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

pytestmark = pytest.mark.slow
BODY = {"model": "headrace-demo", "prompt": [5, 6, 7], "max_tokens": 2, "ignore_eos": True}
CLIENTS = 4


def complete(platform: RunningPlatform) -> int:
    """The status of one request on a connection of its own."""
    return httpx2.post(f"{platform.http}/v1/completions", json=BODY, timeout=60).status_code


def test_no_connection_is_refused_while_the_gateway_starts_again_and_all_are_after_the_end(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_platform(tmp_path_factory.mktemp("restart"), ["--engine", "sim"]) as platform:
        outcomes: list[object] = []
        ended = threading.Event()

        def keep_asking() -> None:
            while not ended.is_set():
                try:
                    outcomes.append(complete(platform))
                except httpx2.HTTPError as error:
                    outcomes.append(error)

        threads = [threading.Thread(target=keep_asking) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for restarts in (1, 2):
            os.kill(platform.service("gateway")["pid"], signal.SIGTERM)
            platform.wait_until_restarted("gateway", restarts)
            count = len(outcomes)
            deadline = time.monotonic() + 30
            while len(outcomes) < count + CLIENTS:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        ended.set()
        for thread in threads:
            thread.join(60)
        assert set(outcomes) == {200}
    # A platform that ends lets nobody wait.
    with pytest.raises(httpx2.ConnectError):
        complete(platform)
