"""Load script: keeps N streams open and compares every answer with the first one to the same prompt.

    python streams.py FOLDER COUNT [TOKENS [RESUME_SECONDS]]

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
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

PROMPTS = tuple(f"Tell me about {subject}." for subject in ("a headrace", "a turbine", "a dam", "the sea", "a mill"))
MAX_TOKENS = 300
TIMEOUT = 120.0
POLL = 0.1
CHAT = "/v1/chat/completions"


class Reading:
    """Events of one answer, over as many connections as it takes."""

    def __init__(self) -> None:
        self.text = ""
        self.finish_reason = ""
        self.is_done = False
        self.resume_path = ""
        """Path of the rest after the last event that is whole. Empty: there is none yet."""
        self.moved = time.monotonic()
        """Time of the last event."""
        self._data = self._id = ""

    def read(self, answer: http.client.HTTPResponse) -> None:
        """Reads to the end. Raises OSError, HTTPException, and ValueError for an error that the answer has."""
        self._data = self._id = ""
        if answer.status != http.client.OK:
            raise ValueError(f"{answer.status}: {answer.read()[-300:]!r}")
        while line := answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "data":
                self._data = value
            elif name == "id":
                self._id = value
            elif not name:
                self._take(self._data, self._id)
                self._data = self._id = ""
        if not self.is_done:
            raise ValueError("the stream ended without saying so")

    def _take(self, data: str, event_id: str) -> None:
        self.is_done = self.is_done or data == "[DONE]"
        if not data or self.is_done:
            return
        event = json.loads(data)
        if "choices" not in event:
            raise ValueError(data[:300])
        for choice in event["choices"]:
            self.text += choice["delta"].get("content") or ""
            self.finish_reason = choice["finish_reason"] or self.finish_reason
        self.moved = time.monotonic()
        if event_id:
            self.resume_path = f"/headrace/streams/{event['id']}?after={event_id}"


def ask(addresses: Sequence[str], prompt: str, max_tokens: int = MAX_TOKENS, resume_seconds: float = 0.0) -> str:
    """Returns the text of a stream, of the first gateway. One whose connection breaks is resumed at the others for so
    many seconds. Raises OSError, HTTPException or ValueError where it did not come whole."""
    body = {"model": "headrace-demo", "messages": [{"role": "user", "content": prompt}], "stream": True}
    body |= {"max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    reading = Reading()
    for number, address in enumerate(itertools.cycle(addresses)):
        connection = http.client.HTTPConnection(address, 8000, timeout=TIMEOUT)
        try:
            if number:
                connection.request("GET", reading.resume_path)
            else:
                connection.request("POST", CHAT, json.dumps(body), {"content-type": "application/json"})
            reading.read(connection.getresponse())
            break
        except (OSError, http.client.HTTPException, ValueError):
            if not reading.resume_path or time.monotonic() - reading.moved > resume_seconds:
                raise
            time.sleep(POLL)
        finally:
            connection.close()
    if reading.finish_reason != "length":
        raise ValueError(f"the stream ended with {reading.finish_reason!r}")
    return reading.text


class Streams:
    """So many streams at any time, over the gateways that a Service would send them to."""

    def __init__(self, folder: Path, max_tokens: int = MAX_TOKENS, resume_seconds: float = 0.0) -> None:
        self._folder, self._max_tokens, self._resume_seconds = folder, max_tokens, resume_seconds
        self._expected = {prompt: ask(self.addresses[:1], prompt, max_tokens) for prompt in PROMPTS}
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
            first = number % len(addresses)
            addresses, address = [*addresses[first:], *addresses[:first]], addresses[first]
            began = datetime.now(UTC)
            try:
                text = ask(addresses, prompt, self._max_tokens, self._resume_seconds)
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
    streams = Streams(folder, *map(int, sys.argv[3:4]), *map(float, sys.argv[4:]))
    streams.run(int(sys.argv[2]))
    found = {"counts": streams.results, "faults": streams.faults}
    (folder / "results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
