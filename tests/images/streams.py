"""Streams requests through a platform continuously, and compares each answer with the first one to its prompt.

    python streams.py FOLDER COUNT [TOKENS]

It runs in a container or on a host, beside those that it calls, and needs the standard library alone. The folder has
the addresses of gateways that take new streams, one a line, in `addresses`; a file `begun` comes there once the first
answers are known, a file `stop` ends it, and results come into `results.json`.
"""

import http.client
import itertools
import json
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

PROMPTS = tuple(f"Tell me about {subject}." for subject in ("a headrace", "a turbine", "a dam", "the sea", "a mill"))
MAX_TOKENS = 300
TIMEOUT = 120.0
POLL = 0.1


def ask(address: str, prompt: str, max_tokens: int = MAX_TOKENS) -> str:
    """Returns the text of a stream. Raises OSError, HTTPException or ValueError where it did not come whole."""
    body = {"model": "headrace-demo", "messages": [{"role": "user", "content": prompt}], "stream": True}
    body |= {"max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
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

    def __init__(self, folder: Path, max_tokens: int = MAX_TOKENS) -> None:
        self._folder, self._max_tokens = folder, max_tokens
        self._expected = {prompt: ask(self.addresses[0], prompt, max_tokens) for prompt in PROMPTS}
        (folder / "begun").touch()
        self._numbers = itertools.count()
        self.results: Counter[str] = Counter()
        self.faults: list[str] = []

    @property
    def addresses(self) -> list[str]:
        return (self._folder / "addresses").read_text().split()

    def run(self, count: int) -> None:
        """Returns once it has been stopped, and the last streams have ended."""
        threads = [threading.Thread(target=self._go_on) for _ in range(count)]
        for thread in threads:
            thread.start()
        while not self._is_stopped():
            time.sleep(POLL)
        for thread in threads:
            thread.join(TIMEOUT)

    def _is_stopped(self) -> bool:
        return (self._folder / "stop").exists()

    def _go_on(self) -> None:
        """Asks until stopped, once at least."""
        while True:
            number = next(self._numbers)
            prompt = PROMPTS[number % len(PROMPTS)]
            addresses = self.addresses
            address = addresses[number % len(addresses)]
            began = datetime.now(UTC)
            try:
                text = ask(address, prompt, self._max_tokens)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._note("failed", f"{address} at {began:%H:%M:%S.%f}: {error!r}")
            else:
                self._note("same", "") if text == self._expected[prompt] else self._note("changed", text)
            if self._is_stopped():
                return

    def _note(self, result: str, fault: str) -> None:
        self.results[result] += 1
        if fault:
            self.faults.append(f"{result}: {fault[:300]}")


def main() -> None:
    folder = Path(sys.argv[1])
    streams = Streams(folder, *map(int, sys.argv[3:]))
    streams.run(int(sys.argv[2]))
    found = {"counts": streams.results, "faults": streams.faults}
    (folder / "results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
