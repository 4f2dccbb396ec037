"""Services are killed with SIGKILL while requests run. The client must not notice, or get one clear error."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.harness.pace import hold_back
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.gateway.api.openai.responses.response_archive import SIGN_OF_LIFE_SECONDS

PROMPT = "Continuous batching is"
RECOVERY_SECONDS = 15.0
STREAM_TOKENS = 250
"""Long enough, at the pace of the workers, that a busy machine gets to the kill while the stream still runs."""
STEP_SECONDS = 0.008
ITEM_COUNT = 80
COUNTS = {
    "type": "object",
    "properties": {
        "counts": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 999},
            "minItems": ITEM_COUNT,
            "maxItems": ITEM_COUNT,
        }
    },
    "required": ["counts"],
    "additionalProperties": False,
}
"""A schema whose texts are long, and for which no random choice ends early."""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Two workers with the bundled model, held back to a pace at which a stream can still be caught."""
    folder = tmp_path_factory.mktemp("faults")
    pace = hold_back(folder / "failpoints", ("worker-0", "worker-1"), STEP_SECONDS)
    (folder / "slow.toml").write_text(f'{pace}speculation = "off"\n')
    with running_platform(folder, ["--replicas", "2", "--config", str(folder / "slow.toml")]) as platform:
        yield platform


class GreedyStream:
    """A long greedy completion that is read in a separate thread."""

    def __init__(self, platform: RunningPlatform, max_tokens: int = STREAM_TOKENS, **fields: Any) -> None:
        self._platform = platform
        self._max_tokens = max_tokens
        self._fields = fields
        self.text = ""
        self.token_ids: list[int] = []
        self.errors: list[Any] = []
        self.finish_reasons: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait_for_tokens(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.token_ids) < count:
            assert time.monotonic() < deadline, "the stream does not move"
            assert self._thread.is_alive(), f"the stream ended early: {self.finish_reasons} {self.errors}"
            time.sleep(0.001)

    def join(self, finish_reason: str = "length") -> list[int]:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the stream hangs"
        assert self.errors == []
        assert self.finish_reasons == [finish_reason]
        return self.token_ids

    def _read(self) -> None:
        body = {
            "model": "headrace-demo",
            "prompt": PROMPT,
            "max_tokens": self._max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        } | self._fields
        with httpx2.stream("POST", f"{self._platform.http}/v1/completions", json=body, timeout=60) as response:
            for line in response.iter_lines():
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    self.errors.append(event["error"])
                    continue
                choice = event["choices"][0]
                self.token_ids += choice["token_ids"]
                self.text += choice["text"]
                if choice["finish_reason"]:
                    self.finish_reasons.append(choice["finish_reason"])


@pytest.fixture(scope="module")
def undisturbed(platform: RunningPlatform) -> list[int]:
    tokens = GreedyStream(platform).join()
    assert len(tokens) == STREAM_TOKENS
    return tokens


def complete(platform: RunningPlatform) -> httpx2.Response:
    body = {"model": "headrace-demo", "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    return httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=RECOVERY_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stream_survives_its_worker(
    platform: RunningPlatform, undisturbed: list[int], number: signal.Signals
) -> None:
    stream = GreedyStream(platform)
    worker = platform.busy_worker()
    stream.wait_for_tokens(60)
    restarts = platform.service(worker)["restarts"]
    platform.kill(worker, number)
    assert stream.join() == undisturbed
    platform.wait_until_restarted(worker, restarts + 1)
    platform.wait_until_idle()


def test_structured_output_survives_its_worker(platform: RunningPlatform) -> None:
    """The next worker takes the grammar up where the last one left it: the same tokens, and valid to the end."""
    response_format = {"type": "json_schema", "json_schema": {"name": "counts", "schema": COUNTS}}
    expected = GreedyStream(platform, 1500, response_format=response_format).join("stop")
    assert len(expected) > 100
    platform.wait_until_idle()
    stream = GreedyStream(platform, 1500, response_format=response_format)
    worker = platform.busy_worker()
    stream.wait_for_tokens(40)
    restarts = platform.service(worker)["restarts"]
    platform.kill(worker)
    assert stream.join("stop") == expected
    assert len(json.loads(stream.text)["counts"]) == ITEM_COUNT
    platform.wait_until_restarted(worker, restarts + 1)
    platform.wait_until_idle()


def test_a_whole_answer_survives_its_worker(platform: RunningPlatform, undisturbed: list[int]) -> None:
    """A client that does not stream gets the same answer too."""
    answers: list[Any] = []

    def ask() -> None:
        body = {
            "model": "headrace-demo",
            "prompt": PROMPT,
            "max_tokens": STREAM_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        answers.append(httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=60).json())

    thread = threading.Thread(target=ask)
    thread.start()
    worker = platform.busy_worker()
    restarts = platform.service(worker)["restarts"]
    platform.kill(worker)
    thread.join(60)
    assert answers[0]["choices"][0]["token_ids"] == undisturbed
    platform.wait_until_restarted(worker, restarts + 1)


@pytest.mark.parametrize("service", ["scheduler", "tokenizer", "cache", "nats"])
def test_streams_go_on_and_new_requests_work_again(
    platform: RunningPlatform, undisturbed: list[int], service: str
) -> None:
    stream = GreedyStream(platform)
    stream.wait_for_tokens(40)
    restarts = platform.service(service)["restarts"]
    killed = time.monotonic()
    platform.kill(service)
    response = complete(platform)
    assert response.status_code == 200, response.text
    assert time.monotonic() - killed < RECOVERY_SECONDS
    assert stream.join() == undisturbed
    platform.wait_until_restarted(service, restarts + 1)
    platform.wait_until_idle()


def test_everything_registers_again_after_nats_lost_its_memory(platform: RunningPlatform) -> None:
    """The heartbeats that the gateway hears go on, so the platform's metrics are alive."""
    restarts = platform.service("nats")["restarts"]
    platform.kill("nats")
    platform.wait_until_restarted("nats", restarts + 1)
    deadline = time.monotonic() + RECOVERY_SECONDS
    while httpx2.get(f"{platform.http}/ready", timeout=10).json()["services"]["nats"] != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    stream = GreedyStream(platform)
    stream.wait_for_tokens(10)
    assert platform.busy_worker()
    stream.join()
    platform.wait_until_idle()


def test_a_killed_gateway_comes_back_on_the_same_port(platform: RunningPlatform) -> None:
    restarts = platform.service("gateway")["restarts"]
    platform.kill("gateway")
    platform.wait_until_restarted("gateway", restarts + 1)
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            if complete(platform).status_code == 200:
                break
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.1)
    platform.wait_until_idle()


def test_a_background_response_of_a_killed_gateway_fails_or_is_continued(platform: RunningPlatform) -> None:
    """It is continued where its journal was in a cache when the gateway was killed."""
    url = f"{platform.http}/v1/responses"
    form = {"type": "json_schema", "name": "counts", "schema": COUNTS}
    body = {"model": "headrace-demo", "input": PROMPT, "text": {"format": form}, "background": True}
    made = httpx2.post(url, json=body, timeout=RECOVERY_SECONDS).json()
    restarts = platform.service("gateway")["restarts"]
    platform.kill("gateway")
    platform.wait_until_restarted("gateway", restarts + 1)
    deadline = time.monotonic() + SIGN_OF_LIFE_SECONDS + RECOVERY_SECONDS
    unfinished = {"queued", "in_progress"}
    while (found := httpx2.get(f"{url}/{made['id']}", timeout=RECOVERY_SECONDS).json())["status"] in unfinished:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if found["status"] == "completed":
        (message,) = [item for item in found["output"] if item["type"] == "message"]
        assert len(json.loads(message["content"][0]["text"])["counts"]) == ITEM_COUNT
    else:
        assert found["status"] == "failed"
        assert "create the response again" in found["error"]["message"]
    platform.wait_until_idle()
