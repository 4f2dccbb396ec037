"""Streams that go on and on through a platform, each compared with what the same prompt said before."""

import http.client
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

PROMPTS = tuple(f"Tell me about {subject}." for subject in ("a headrace", "a turbine", "a dam", "the sea", "a mill"))
MAX_TOKENS = 300
TIMEOUT = 120.0


def ask(address: str, prompt: str) -> str:
    """Returns the text of a stream. Raises OSError, HTTPException or ValueError where it did not come whole."""
    body = {"model": "headrace-demo", "messages": [{"role": "user", "content": prompt}], "stream": True}
    body |= {"max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True}
    connection = http.client.HTTPConnection(address, 8000, timeout=TIMEOUT)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        said = answer.read().decode()
    finally:
        connection.close()
    lines = [line.removeprefix("data: ") for line in said.splitlines() if line.startswith("data: ")]
    if answer.status != http.client.OK or not lines or lines[-1] != "[DONE]":
        raise ValueError(f"{answer.status}: {said[-500:]}")
    choices = [choice for line in lines[:-1] for choice in json.loads(line)["choices"]]
    if choices[-1]["finish_reason"] != "length":
        raise ValueError(said[-500:])
    return "".join(choice["delta"].get("content") or "" for choice in choices)


class Streams:
    """So many streams at any time, over the gateways that a Service would send them to."""

    def __init__(self, addresses: list[str], count: int) -> None:
        self.addresses = list(addresses)
        """Gateways that take new streams. One that is about to stop is taken out first."""
        self.expected = {prompt: ask(addresses[0], prompt) for prompt in PROMPTS}
        self.results: Counter[str] = Counter()
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(count)]

    def _go_on(self) -> None:
        while not self._stop.is_set():
            number = next(self._numbers)
            prompt = PROMPTS[number % len(PROMPTS)]
            address = self.addresses[number % len(self.addresses)]
            began = datetime.now(UTC)
            try:
                text = ask(address, prompt)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._note("failed", f"{address} at {began:%H:%M:%S.%f}: {error!r}")
            else:
                self._note("same", "") if text == self.expected[prompt] else self._note("changed", text)

    def _note(self, result: str, fault: str) -> None:
        self.results[result] += 1
        if fault:
            self.faults.append(f"{result}: {fault[:300]}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Starts them, and waits for the last ones at the end."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(TIMEOUT)
