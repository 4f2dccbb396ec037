"""Streams of completions that benchmarks read."""

import json
import threading
import time
from typing import Any

import httpx2

MODEL = "grown"
TIMEOUT = 300.0


def asked(text: str, token_count: int) -> dict[str, Any]:
    """Body of a request."""
    usual = {"model": MODEL, "temperature": 0, "ignore_eos": True, "stream": True, "cache": False}
    return usual | {"prompt": text, "max_tokens": token_count, "stream_options": {"include_usage": True}}


class Stream:
    """A stream that is read in a thread."""

    def __init__(self, url: str, text: str, token_count: int) -> None:
        self.text, self.cached = "", 0
        self.asked_time = time.perf_counter()
        self.arrivals: list[float] = []
        """Times of its events with text, in seconds of the performance counter."""
        self.begun, self._ending = threading.Event(), threading.Event()
        self._url, self._body = url, asked(text, token_count)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait(self) -> "Stream":
        """Waits for its end."""
        self._thread.join(TIMEOUT)
        return self

    @property
    def first_seconds(self) -> float:
        """Seconds to its first token."""
        return self.arrivals[0] - self.asked_time

    @property
    def is_running(self) -> bool:
        """Whether it has not come to its end."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Leaves it."""
        self._ending.set()
        self.wait()

    def _read(self) -> None:
        with httpx2.stream("POST", f"{self._url}/v1/completions", json=self._body, timeout=TIMEOUT) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if self._ending.is_set():
                    return
                if not line.startswith("data: {"):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if event["choices"]:
                    self.arrivals.append(time.perf_counter())
                    self.text += event["choices"][0]["text"]
                    self.begun.set()
                details = (event.get("usage") or {}).get("prompt_tokens_details") or {}
                self.cached = details.get("cached_tokens", self.cached)
