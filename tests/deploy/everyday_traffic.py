"""Traffic of every kind, as a healthy platform has it: also what is refused, and what a cache answers."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx2

TIMEOUT = 60.0
PAUSE_SECONDS = 0.25
"""Seconds between two requests of one client: what a busy core serves without a queue."""
CLASSES = ("realtime", "interactive", "default", "batch")
TEXT_MODEL, EMBEDDING_MODEL = "headrace-demo", "minilm"
MESSAGES = [{"role": "user", "content": "Why does water flow downhill?"}]


@dataclass
class EverydayTraffic:
    """Clients of a platform that makes text and asks for keys, and of one that makes embeddings. Each kind of request
    has a thread of its own, and fails where its status is not the expected one."""

    text_url: str
    key: str
    embedding_url: str
    counts: dict[str, int] = field(default_factory=dict)
    """Requests that were answered as expected, by kind."""
    _stopping: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sends requests for as long as the context is open. Fails on exit if one was not answered as expected."""
        kinds = self._kinds()
        with ThreadPoolExecutor(len(kinds)) as threads:
            running = [threads.submit(self._drive, name, ask) for name, ask in kinds.items()]
            try:
                yield
            finally:
                self._stopping.set()
            for each in running:
                each.result(TIMEOUT)

    def _drive(self, name: str, ask: Callable[[httpx2.Client, int], httpx2.Response]) -> None:
        self.counts[name] = 0
        with httpx2.Client(timeout=TIMEOUT) as client:
            for number in itertools.count():
                answer = ask(client, number)
                wanted = {"rejected key": 401, "no such path": 404}.get(name, 200)
                assert answer.status_code == wanted, f"{name}: {answer.status_code} {answer.text}"
                self.counts[name] += 1
                if self._stopping.wait(PAUSE_SECONDS):
                    return

    def _kinds(self) -> dict[str, Callable[[httpx2.Client, int], httpx2.Response]]:
        """Requests by kind; each takes the number of the request."""
        return {
            "chat": lambda client, number: self._text(client, "chat/completions", number, messages=MESSAGES),
            "stream": lambda client, number: self._text(
                client, "chat/completions", number, messages=MESSAGES, stream=True
            ),
            "responses": lambda client, number: self._text(
                client, "responses", number, input="Why is the sky blue?", max_output_tokens=8
            ),
            "cached answer": lambda client, number: self._text(
                client, "completions", number, cache="on", prompt="Once upon a time", temperature=0
            ),
            "embeddings": lambda client, number: self._embedding(
                client, "embeddings", input=[f"Water, number {number % 7}", "Bread is baked in an oven."]
            ),
            "rerank": lambda client, number: self._embedding(
                client, "rerank", query=f"What is baked? {number}", documents=["Bread is baked.", "Water flows."]
            ),
            "rejected key": lambda client, number: client.get(
                f"{self.text_url}/v1/models", headers={"authorization": "Bearer sk-nobody-knows"}
            ),
            "no such path": lambda client, number: client.get(f"{self.text_url}/v1/nothing", headers=self._headers(0)),
        }

    def _headers(self, number: int, cache: str = "off") -> dict[str, str]:
        urgency = CLASSES[number % len(CLASSES)]
        return {"authorization": f"Bearer {self.key}", "x-headrace-class": urgency, "x-headrace-cache": cache}

    def _text(
        self, client: httpx2.Client, path: str, number: int, cache: str = "off", **fields: Any
    ) -> httpx2.Response:
        length = {} if "max_output_tokens" in fields else {"max_tokens": 16}
        body = {"model": TEXT_MODEL} | length | fields
        return client.post(f"{self.text_url}/v1/{path}", json=body, headers=self._headers(number, cache))

    def _embedding(self, client: httpx2.Client, path: str, **fields: Any) -> httpx2.Response:
        return client.post(f"{self.embedding_url}/v1/{path}", json={"model": EMBEDDING_MODEL} | fields)
