"""Every service that is stopped is restarted, even all at once, and the platform answers again."""

import signal
import time
from pathlib import Path

import httpx2
import pytest
from tests.harness.running_platform import running_platform

SERVICES = ("nats", "tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0", "gateway")
TIMEOUT = 60.0


@pytest.mark.process
def test_frozen_services_are_started_again(tmp_path: Path) -> None:
    with running_platform(tmp_path, ["--engine", "sim"], counts=()) as platform:
        for name in SERVICES:
            platform.kill(name, signal.SIGSTOP)
        for name in SERVICES:
            platform.wait_until_restarted(name, 1, timeout=TIMEOUT)
            assert f"{name} (pid" in platform.log(name)
            assert "did not answer for" in platform.log(name)
        _wait_until_answering(platform.http)
        restarts = {service["name"]: service["restarts"] for service in platform.describe()["services"]}
    assert restarts == dict.fromkeys(SERVICES, 1)


def _wait_until_answering(http: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    body = {"model": "headrace-demo", "prompt": "Hello", "max_tokens": 4}
    while httpx2.post(f"{http}/v1/completions", json=body, timeout=TIMEOUT).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
