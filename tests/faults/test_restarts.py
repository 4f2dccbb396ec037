"""A platform of one of each: while a service is started again, requests wait, and none hears that its model is gone."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

BODY: dict[str, Any] = {"model": "headrace-demo", "prompt": "a", "max_tokens": 2}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    with running_platform(tmp_path_factory.mktemp("restarts")) as platform:
        yield platform


class Asking:
    """Several clients that ask one request after the other until stopped, and count the answers."""

    def __init__(self, platform: RunningPlatform, clients: int = 4) -> None:
        self.answers: Counter[int | str] = Counter()
        self._url = f"{platform.http}/v1/completions"
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def wait_for_answers(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while self.answers[200] < count:
            assert time.monotonic() < deadline, self.answers
            time.sleep(0.01)

    def stop(self) -> "Counter[int | str]":
        self._stopping.set()
        for thread in self._threads:
            thread.join(40)
            assert not thread.is_alive(), "a request hangs"
        return self.answers

    def _ask(self) -> None:
        while not self._stopping.is_set():
            try:
                response = httpx2.post(self._url, json=BODY, timeout=30)
                self.answers[response.status_code] += 1
            except httpx2.TransportError:
                self.answers["connection"] += 1
                time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("name", ["worker-0", "scheduler", "gateway"])
def test_no_request_hears_that_its_model_is_gone(platform: RunningPlatform, name: str, number: signal.Signals) -> None:
    asking = Asking(platform)
    try:
        restarts = platform.service(name)["restarts"]
        platform.kill(name, number)
        platform.wait_until_restarted(name, restarts + 1)
        asking.wait_for_answers(asking.answers[200] + 20)
    finally:
        answers = asking.stop()
    assert answers[200] > 0
    allowed = {200, "connection", 503} if name == "gateway" else {200}
    assert set(answers) <= allowed, answers
    platform.wait_until_idle()
